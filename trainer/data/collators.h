// Collators make a batch of samples. Both need samples with the same keys. Source: torch's default_collate, and
// transformers' DataCollatorWithPadding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "trainer/core/dataset.h"

namespace composer {

// Stacks tensors of one shape and dtype along a new first dimension; texts become Batch::texts. num_tokens is the
// number of elements of `inputs` when these are integer rows. Throws c10::ValueError naming the samples and keys that
// differ.
class StackCollator final : public Collator {
 public:
  Batch Collate(std::vector<Sample> samples) const override;
};

struct PadOptions {
  int64_t pad_id = 0;          // fills `inputs` and every other row of integers
  int64_t ignored_id = -100;   // fills `targets`
  int64_t to_length = 0;       // tokens a row; 0: those of the batch's longest row. A longer row is an error
  int64_t to_multiple_of = 1;  // rounds the longest row up
  bool pad_left = false;       // for generation
};

// Like StackCollator, but pads rows (tensors [T] of integers) to one length. Adds `attention_mask`, int64 [B, T], 1 for
// what is not padding of `inputs`, and likewise `positives_mask` and `negatives_mask`, unless the samples bring them
// (padded with 0). num_tokens counts without padding.
class PadCollator final : public Collator {
 public:
  explicit PadCollator(const PadOptions& options = {}) : options_(options) {}
  Batch Collate(std::vector<Sample> samples) const override;

 private:
  const PadOptions options_;
};

}  // namespace composer
