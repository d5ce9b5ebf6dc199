// NanPolicy decides what happens to a step whose loss, or a gradient, is NaN or infinite (on_nan).
//
//   stop       the run ends before the update: the parameters, and the newest checkpoint, are still finite
//   skip       no update, and buffers are as before the step; more than kMostInARow such steps in a row end the run
//   continue   the update is made all the same, as in Composer
//
// It is a pure decision: every rank sees the same verdicts and acts alike. Steps that the scaler of amp_fp16 skips
// because of their gradients are handled there and not counted here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

enum class OnNan { kStop, kSkip, kContinue };

class NanPolicy {
 public:
  static constexpr int kMostInARow = 10;
  enum class Action { kUpdate, kSkip, kStop };

  explicit NanPolicy(OnNan on_nan = OnNan::kStop) : on_nan_(on_nan) {}

  Action OnStep(bool finite);
  // Returns whether the last step was the first of the run that was not finite, which deserves a warning.
  bool is_first() const { return faults_ == 1 && in_a_row_ == 1; }
  OnNan on_nan() const { return on_nan_; }
  int64_t skipped_steps() const { return skipped_steps_; }
  int64_t in_a_row() const { return in_a_row_; }

  // Returns one JSON object, or "" as long as nothing was skipped.
  std::string SaveState() const;
  absl::Status LoadState(absl::string_view json);

 private:
  OnNan on_nan_;
  int64_t faults_ = 0;  // steps of this process that were not finite
  int64_t skipped_steps_ = 0;
  int64_t in_a_row_ = 0;
};

}  // namespace composer
