// SeqLengthWarmup trains a language model on shorter sequences first: batch n of N, of which the first N duration are
// the warm-up, has sequences of at most
//
//   min_seq_length + step_size floor(n / k) tokens,  k = floor(N duration) / floor((max - min) / step_size)
//
// up to max_seq_length, k rounded down (where it would be 0, lengths grow in proportion, and Composer divides by zero).
// Longer ones are truncated; with truncate: false the batch's tokens are cut into more rows instead. Inputs, targets
// and every other tensor [B, T, *] of the batch are changed alike. Clocks count all tokens that were loaded.
// max_duration must be in batches or epochs. Logs seq_length_warmup/{curr_seq_len,curr_bs}. Composer's first pass at
// the full length, which reserves GPU memory, is not made.
//
// Source: Li et al. 2021, arXiv:2108.06084; mosaicml composer/algorithms/seq_length_warmup/seq_length_warmup.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/core/batch.h"
#include "trainer/core/callback.h"

namespace composer {

struct SeqLengthWarmupOptions {
  double duration = 0.3;          // the part of the run, 0 to 1
  int64_t min_seq_length = 8;     // >= 1
  int64_t max_seq_length = 1024;  // >= min_seq_length
  int64_t step_size = 8;          // >= 1
  bool truncate = true;
  // The last token that attention_mask has of a sequence stays its last one. Needs truncate.
  bool preserve_end_of_sequence = false;
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const SeqLengthWarmupOptions& options);

// Returns the length at this batch of the run's `batches`.
int64_t WarmupLength(const SeqLengthWarmupOptions& options, int64_t batch, int64_t batches);

// Changes sequences that are longer than `length`. Throws c10::ValueError that names a tensor which is not a sequence,
// or an attention_mask that is missing.
void SetBatchSequenceLength(Batch& batch, int64_t length, bool truncate = true, bool preserve_end_of_sequence = false);

class SeqLengthWarmup final : public Algorithm {
 public:
  explicit SeqLengthWarmup(const SeqLengthWarmupOptions& options) : options_(options) {}
  std::string name() const override { return "SeqLengthWarmup"; }
  EventSet events() const override { return {Event::kInit, Event::kAfterDataloader}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  // Returns kInvalidArgument at INIT when max_duration has another unit.
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  bool adds_samples() const override { return !options_.truncate; }

 private:
  SeqLengthWarmupOptions options_;
};

}  // namespace composer
