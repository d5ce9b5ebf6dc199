// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/tensor_parallel_sync.h"

#include <torch/types.h>

#include <algorithm>

namespace composer {

void TensorParallelSync::Finish() {
  const torch::NoGradGuard no_grad;
  data_.Finish();
  const absl::Span<float> all = tail();
  sums_.assign(all.begin(), all.end());
  sums_.push_back(data_.gradients_finite() ? 0 : 1);
  const at::Tensor host = at::from_blob(sums_.data(), {static_cast<int64_t>(sums_.size())}, at::kFloat);
  const at::Tensor sum = host.to(tensor_.device());  // on a CPU this is host itself
  tensor_.AllReduceSum(sum);
  if (!sum.is_alias_of(host)) host.copy_(sum);
  finite_ = sums_.back() == 0;
  std::copy(sums_.begin(), sums_.end() - 1, all.begin());
}

}  // namespace composer
