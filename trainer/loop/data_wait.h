// DataWait is the share of its time that a rank's training thread waits for batches: over about the last 50 steps, the
// time in which the loop waited for its next batch / the time from step to step. Time that is not training's, such as
// that of evaluations, is in neither.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/time/time.h"

namespace composer {

// A step costs O(1), whatever came before. Not thread-safe.
class DataWait {
 public:
  // Forgets everything. The next step is left out: nothing could be loaded ahead of the first batch.
  void Restart() { *this = {}; }
  // A step took `step`, of which `waited` went by before its batch was there.
  void Add(absl::Duration waited, absl::Duration step) {
    if (!std::exchange(begun_, true)) return;
    waited_ = kKept * waited_ + absl::ToDoubleSeconds(waited);
    passed_ = kKept * passed_ + absl::ToDoubleSeconds(step);
  }
  // From 0 to 1; NaN before the second step.
  double share() const { return passed_ > 0 ? std::clamp(waited_ / passed_, 0.0, 1.0) : std::nan(""); }

 private:
  static constexpr double kKept = 0.98;  // of the weight of the steps before

  bool begun_ = false;
  double waited_ = 0, passed_ = 0;  // seconds, older steps with less weight
};

}  // namespace composer
