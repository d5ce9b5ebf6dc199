// The sum of a step's passes on one rank's shard of a gradient: each term added to the sum as it comes, or, for
// `determinism: elastic`, in the order of TreeSum: a binary counter of partial sums. That takes
// floor(log2(passes + 1)) - 1 further tensors like the sum, which stay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace composer {

// Threads: one at a time.
class GradientAccumulator {
 public:
  // total: where the sum will be.
  void Init(at::Tensor total, bool in_tree_order);

  // The next term; first: of a step. Its memory is free afterwards. The term may be of another dtype or device.
  void Add(const at::Tensor& term, bool first);
  // After the last: the total is the sum.
  void Finish();

  // Further tensors like the total.
  int64_t num_partials() const { return partials_.empty() ? 0 : static_cast<int64_t>(partials_.size()) - 1; }
  static int64_t NumPartialsFor(int64_t passes);  // in tree order

 private:
  // The last of partials_ in use, into the one before it.
  void Merge();

  at::Tensor total_;
  bool in_tree_order_ = false;
  std::vector<at::Tensor> partials_;  // of more and more recent terms; the first is the total
  std::vector<int64_t> terms_;        // in each that is in use
};

}  // namespace composer
