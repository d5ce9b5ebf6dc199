// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/stops/early_stopper.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/format/json.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace composer {

absl::Status EarlyStopper::Run(Event event, State& state, Logger& logger) {
  if (event == Event::kFitEnd) {
    if (!has_best_ && state.identity.rank == 0) LOG(WARNING) << "early_stopper: nothing logged " << metric_.name();
    return absl::OkStatus();
  }
  const std::optional<double> value = metric_.News(event, state, logger);
  if (!value.has_value()) return absl::OkStatus();
  if (!has_best_ || metric_.IsBetter(*value, best_, options_.min_delta)) {
    has_best_ = true;
    best_ = *value;
    best_seen_ = state.timestamp;
  }
  if (!OutOfPatience(state) || state.requests.stop) return absl::OkStatus();
  if (state.identity.rank == 0) {
    LOG(INFO) << "early_stopper: " << metric_.name() << " is " << *value << " after batch " << state.timestamp.batch
              << ", the best was " << best_ << " after batch " << best_seen_.batch << "; the run ends";
  }
  state.StopTraining();
  return absl::OkStatus();
}

bool EarlyStopper::OutOfPatience(const State& state) const {
  const bool is_share = options_.patience.unit() == TimeUnit::kDuration;
  const TimeUnit unit = is_share ? state.max_duration.unit() : options_.patience.unit();
  const double limit = options_.patience.value() * (is_share ? state.max_duration.value() : 1);
  return static_cast<double>(state.timestamp.Get(unit) - best_seen_.Get(unit)) > limit;
}

// JSON has no NaN, so null stands for it.
std::string EarlyStopper::SaveState() const {
  if (!has_best_) return "";
  return nlohmann::json{{"best", best_}, {"best_seen", ParseJson(best_seen_.ToJson())}}.dump();
}

absl::Status EarlyStopper::LoadState(absl::string_view text) {
  const auto json = ParseJson(text);
  if (!json.is_object() || !json.contains("best") || !json.contains("best_seen"))
    return absl::InvalidArgumentError("saved state: best or best_seen is missing");
  if (!json["best"].is_number() && !json["best"].is_null())
    return absl::InvalidArgumentError("saved state: best is not a number");
  ASSIGN_OR_RETURN(best_seen_, Timestamp::FromJson(json["best_seen"].dump()));
  best_ = json["best"].is_null() ? std::numeric_limits<double>::quiet_NaN() : json["best"].get<double>();
  has_best_ = true;
  return absl::OkStatus();
}

}  // namespace composer
