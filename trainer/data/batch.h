// What a data loader yields and a model takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace composer {

// B = this rank's samples. B may be 0: a rank without a share of a small last batch still takes part in the step.
struct Batch {
  at::Tensor inputs;                // [B, *]
  at::Tensor targets;               // [B, *]
  std::vector<int64_t> sample_ids;  // [B] indices into the dataset
  int64_t num_samples = 0;          // B
  int64_t num_tokens = 0;           // 0 when the data has none

  // Rows [begin, end) as views; tokens in proportion to the rows.
  Batch Slice(int64_t begin, int64_t end) const;
};

}  // namespace composer
