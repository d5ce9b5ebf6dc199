// SPDX-License-Identifier: Apache-2.0
#include "tracking/open_tracker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracking/comet_sink.h"
#include "tracking/mlflow_sink.h"
#include "tracking/slack_sink.h"
#include "tracking/wandb_sink.h"

namespace composer {

absl::StatusOr<std::unique_ptr<Tracker>> OpenTracker(const TrackerOptions& options, const Environment& environment,
                                                     std::shared_ptr<Http> http,
                                                     std::shared_ptr<const std::atomic<bool>> given_up) {
  if (options.name == "mlflow") {
    ASSIGN_OR_RETURN(MlflowSink::Options own, MlflowSink::ReadOptions(options.settings, environment));
    own.given_up = std::move(given_up);
    return std::make_unique<Tracker>(options, std::make_unique<MlflowSink>(std::move(http), std::move(own)));
  }
  if (options.name == "slack") {
    ASSIGN_OR_RETURN(SlackSink::Options own, SlackSink::ReadOptions(options.settings, environment));
    own.given_up = std::move(given_up);
    return std::make_unique<Tracker>(options, std::make_unique<SlackSink>(std::move(http), std::move(own)));
  }
  if (options.name == "wandb") return std::make_unique<Tracker>(options, std::make_unique<WandbSink>());
  if (options.name == "cometml") return std::make_unique<Tracker>(options, std::make_unique<CometSink>());
  return absl::InvalidArgumentError(
      absl::StrCat("there is no tracker `", options.name, "`: cometml, mlflow, slack, wandb"));
}

}  // namespace composer
