// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/nan_policy.h"

#include <nlohmann/json.hpp>

#include "base/format/json.h"

namespace composer {

NanPolicy::Action NanPolicy::OnStep(bool finite) {
  if (finite) {
    in_a_row_ = 0;
    return Action::kUpdate;
  }
  ++faults_;
  ++in_a_row_;
  if (on_nan_ == OnNan::kContinue) return Action::kUpdate;
  if (on_nan_ == OnNan::kStop || in_a_row_ > kMostInARow) return Action::kStop;
  ++skipped_steps_;
  return Action::kSkip;
}

std::string NanPolicy::SaveState() const {
  if (skipped_steps_ == 0) return "";
  return nlohmann::json{{"skipped_steps", skipped_steps_}, {"in_a_row", in_a_row_}}.dump();
}

absl::Status NanPolicy::LoadState(absl::string_view json) {
  const auto saved = ParseJson(json);
  const auto count = [&saved](const char* key, int64_t& value) {
    if (!saved.is_object() || !saved.contains(key) || !saved[key].is_number_unsigned()) return false;
    value = saved[key].get<int64_t>();
    return value >= 0;
  };
  if (count("skipped_steps", skipped_steps_) && count("in_a_row", in_a_row_)) return absl::OkStatus();
  return absl::DataLossError("the counts of steps that were not finite are missing");
}

}  // namespace composer
