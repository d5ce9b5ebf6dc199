// GradientAccumulator sums a step's passes on one rank's shard of a gradient. Each term is added to the sum as it comes
// or, for `determinism: elastic`, in the order of TreeSum with a binary counter of partial sums. That takes
// floor(log2(passes + 1)) - 1 further tensors like the sum, which are kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace composer {

// Threads: one at a time.
class GradientAccumulator {
 public:
  // `total` is the tensor that will hold the sum.
  void Init(at::Tensor total, bool in_tree_order);

  // Adds the next term; `first` begins a step. The term's memory is not needed afterwards. It may be of another dtype
  // or device.
  void Add(const at::Tensor& term, bool first);
  // Must be called after the last term: the total is then the sum.
  void Finish();

  // Returns the number of further tensors like the total.
  int64_t num_partials() const { return partials_.empty() ? 0 : static_cast<int64_t>(partials_.size()) - 1; }
  static int64_t NumPartialsFor(int64_t passes);  // in tree order

 private:
  // Adds the last of partials_ in use to the one before it.
  void Merge();

  at::Tensor total_;
  bool in_tree_order_ = false;
  std::vector<at::Tensor> partials_;  // sums of ever more recent terms; the first is the total
  std::vector<int64_t> terms_;        // the number of terms in each that is in use
};

}  // namespace composer
