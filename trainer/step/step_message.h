// StepMessage is what the ranks tell each other in a step, as float32s at the tail of the last gradient bucket, so that
// it needs no collective of its own. The all-reduce sums each field over ranks. Counts are split into three 12-bit
// limbs, so that sums over up to 4,096 ranks stay below 2^24 and are exact in float32; losses travel as WireNumbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "trainer/step/wire_number.h"

namespace composer {

struct StepMessage {
  // At most this many named losses (Loss::parts) travel here; a model with more costs the step two collectives.
  static constexpr int kMaxLossParts = 8;

  double weighted_loss = 0;     // this rank's share of the global mean loss
  int64_t samples = 0;          // as the loader gave them: what clocks count; < 2^36 per rank
  int64_t tokens = 0;           // likewise
  int64_t trained_samples = 0;  // samples in the step after algorithms changed the batch; < 2^36 per rank
  int64_t loss_tokens = 0;      // < 2^36 per rank; only when microbatches are weighted by them
  int stop_votes = 0;           // ranks that want the run to end (StopTraining)
  int drain_votes = 0;          // ranks that were asked to save and leave (preemption)
  int out_of_memory = 0;        // ranks that ran out; all discard the step and repeat it with smaller microbatches
  int save_failures = 0;        // ranks whose background save failed; all end with its error
  int save_votes = 0;           // ranks that were asked for a checkpoint now
  int profile_votes = 0;        // ranks that were asked for a profile of the next batches
  int with_more_parts = 0;      // ranks whose model has more than kMaxLossParts losses
  float seconds = 0;            // rank 0's time since the last step; other ranks send 0
  std::array<double, kMaxLossParts> weighted_parts{};  // like weighted_loss

  // Returns the message without losses and counts, for a rank whose samples another rank reports, so that they count
  // once.
  StepMessage VotesOnly() const;

  static constexpr int kBeforeLoss = 20;                                                   // floats
  static constexpr int kLength = kBeforeLoss + (1 + kMaxLossParts) * WireNumber::kLength;  // floats
  // The float that is NaN or infinite when weighted_loss is.
  static constexpr int kLossFlag = kBeforeLoss + WireNumber::kLength - 1;
  // out and in have kLength elements.
  void Encode(absl::Span<float> out) const;
  static StepMessage Decode(absl::Span<const float> in);
};

}  // namespace composer
