// MicrobatchPolicy implements device_train_microbatch_size: auto. It is pure: the result of each step goes in, the next
// size comes out. All ranks hear of an out-of-memory in the same step (StepMessage), so they all choose the same size
// without communicating.
//
//   a step fits:       nothing changes; after `patience` of them the size grows halfway to the smallest that failed, or
//                      doubles when none did
//   out of memory:     halfway back to the largest that fitted, or half when none did; `patience` doubles, so that a
//                      size on the edge is tried ever less often. A failed size is forgotten after 8 * patience good
//                      steps.
//
// It thus finds sizes that are not powers of two, and grows back after a long sequence or another process has gone.
// Composer only ever halves (composer/trainer/trainer.py, _adjust_device_train_microbatch_size()).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

// The policy is a plain value.
class MicrobatchPolicy {
 public:
  // `largest` is the number of samples of a rank's batch, >= 1; it is the first size.
  explicit MicrobatchPolicy(int64_t largest) : largest_(largest), size_(largest) {}

  int64_t size() const { return size_; }
  // Sets the number of samples of a rank's batch, once known.
  void LimitTo(int64_t largest) {
    largest_ = largest;
    if (size_ > largest) size_ = largest;
    if (fitted_ > largest) fitted_ = largest;
  }
  // `samples` is the size of this step's batch on the rank that has the most (a short last batch says little about the
  // size). The caller must repeat the batch with the new size. Returns OutOfMemoryStatus when one sample does not fit.
  absl::Status OnOutOfMemory(int64_t samples);
  void OnFit(int64_t samples);

  // Returns one JSON object. Loading clamps a size larger than this run's batch.
  std::string SaveState() const;
  absl::Status LoadState(absl::string_view json);

 private:
  int64_t largest_;
  int64_t size_;
  int64_t fitted_ = 0;  // the largest that fitted since the last failure above it; 0: none
  int64_t failed_ = 0;  // the smallest that failed; 0: none
  int64_t good_steps_ = 0;
  int64_t patience_ = 16;  // steps
};

}  // namespace composer
