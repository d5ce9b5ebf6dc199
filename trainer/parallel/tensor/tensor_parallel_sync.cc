// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/tensor_parallel_sync.h"

#include <torch/torch.h>

#include <algorithm>

#include "trainer/step/finite_check.h"

namespace composer {

void TensorParallelSync::Finish() {
  const torch::NoGradGuard no_grad;
  FiniteCheck check;
  if (data_ != nullptr) {
    data_->Finish();
  } else {
    for (const at::Tensor& param : params_) check.Add(param.grad());
  }
  const absl::Span<float> all = tail();
  sums_.assign(all.begin(), all.end());
  sums_.push_back(data_ == nullptr || data_->gradients_finite() ? 0 : 1);
  const auto length = static_cast<int64_t>(sums_.size());
  const at::Tensor host = at::from_blob(sums_.data(), {length}, at::kFloat);
  const at::Tensor sum = host.to(tensor_.device());  // on a CPU this is host itself
  check.WriteTo(sum.narrow(0, length - 1, 1));
  tensor_.AllReduceSum(sum);
  if (!sum.is_alias_of(host)) host.copy_(sum);
  finite_ = sums_.back() == 0;
  std::copy(sums_.begin(), sums_.end() - 1, all.begin());
}

}  // namespace composer
