// What a data loader yields and a model takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace composer {

// B = this rank's samples. B may be 0: a rank without a share of a small last batch still takes part in the step.
struct Batch {
  at::Tensor inputs;                        // [B, *]
  at::Tensor targets;                       // [B, *]
  std::map<std::string, at::Tensor> extra;  // [B, *] by name: "attention_mask", "token_type_ids"; usually empty
  std::vector<int64_t> sample_ids;          // [B] indices into the dataset
  int64_t num_samples = 0;                  // B
  int64_t num_tokens = 0;                   // 0 when the data has none
  // Tokens that the loss is the mean over (those that are neither padding nor masked). -1: not counted; then they are
  // counted from the targets (CountLossTokens).
  int64_t num_loss_tokens = -1;

  // Rows [begin, end) as views; tokens in proportion to the rows, loss tokens counted anew.
  Batch Slice(int64_t begin, int64_t end) const;
  // The same on another device; itself when it is there already. From pinned memory the copy does not wait.
  Batch To(at::Device device) const;
};

// num_loss_tokens, or else the integer targets that are not -100. Call it before the batch moves to a GPU: there it
// would wait. Throws c10::ValueError when the targets are not integers, since then it can't be told.
int64_t CountLossTokens(const Batch& batch);

}  // namespace composer
