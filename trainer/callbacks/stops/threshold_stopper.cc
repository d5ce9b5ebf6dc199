// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/stops/threshold_stopper.h"

#include "base/log.h"

namespace composer {

absl::Status ThresholdStopper::Run(Event event, State& state, Logger& logger) {
  if (event == Event::kFitEnd) {
    if (!metric_.ever_seen() && state.identity.rank == 0)
      LOG(WARNING) << "threshold_stopper: nothing logged " << metric_.name();
    return absl::OkStatus();
  }
  const std::optional<double> value = metric_.News(event, state, logger);
  if (!value.has_value() || !metric_.IsBetter(*value, options_.threshold, /*margin=*/0)) return absl::OkStatus();
  if (state.identity.rank == 0 && !state.requests.stop) {
    LOG(INFO) << "threshold_stopper: " << metric_.name() << " is " << *value << " after batch " << state.timestamp.batch
              << ", past " << options_.threshold << "; the run ends";
  }
  state.StopTraining();
  return absl::OkStatus();
}

}  // namespace composer
