// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor_parallel_sync.h"

#include <torch/torch.h>

namespace composer {

void TensorParallelSync::Finish() {
  if (data_ != nullptr) data_->Finish();
  const torch::NoGradGuard no_grad;
  const absl::Span<float> all = tail();
  const at::Tensor host = at::from_blob(all.data(), {static_cast<int64_t>(all.size())}, at::kFloat);
  const at::Tensor sum = host.to(tensor_.device());  // host itself on a CPU
  tensor_.AllReduceSum(sum);
  if (!sum.is_alias_of(host)) host.copy_(sum);
}

}  // namespace composer
