// Chooses device_train_microbatch_size: auto. Pure: what happened to each step in, the next size out; since all ranks
// hear of an out-of-memory in the same step (StepMessage), they all choose the same without talking.
//
//   a step fits:       nothing changes; after `patience` of them the size grows halfway to the smallest that failed, or
//                      doubles when none did
//   out of memory:     halfway back to the largest that fitted, or half when none did; `patience` doubles, so that a size
//                      on the edge is tried ever less often. A failed size is forgotten after 8 * patience good steps.
//
// So it finds sizes that are no powers of two, and grows back after a long sequence or another process has gone.
// Composer only ever halves (composer/trainer/trainer.py, _adjust_device_train_microbatch_size()).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

// Plain value.
class MicrobatchPolicy {
 public:
  // largest: the samples of a rank's batch, >= 1; the first size.
  explicit MicrobatchPolicy(int64_t largest) : largest_(largest), size_(largest) {}

  int64_t size() const { return size_; }
  // The samples of a rank's batch, once known.
  void LimitTo(int64_t largest) {
    largest_ = largest;
    if (size_ > largest) size_ = largest;
    if (fitted_ > largest) fitted_ = largest;
  }
  // samples: of this step's batch on the rank that has the most (a short last batch says little about the size).
  // The batch is to be done again with the new size. OutOfMemoryStatus: one sample does not fit.
  absl::Status OnOutOfMemory(int64_t samples);
  void OnFit(int64_t samples);

  // One JSON object. A size larger than this run's batch is cut to it.
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
