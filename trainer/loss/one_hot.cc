// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss/one_hot.h"

#include <torch/types.h>

namespace composer {

at::Tensor OneHotTargets(const char* loss, const at::Tensor& logits, const at::Tensor& targets) {
  if (targets.sizes() == logits.sizes()) return targets.to(logits.scalar_type());
  TORCH_CHECK_VALUE(logits.dim() >= 2 && targets.dim() == logits.dim() - 1 && targets.size(0) == logits.size(0) &&
                        targets.sizes().slice(1) == logits.sizes().slice(2) && !targets.is_floating_point(),
                    loss, ": expected targets of the logits' shape ", logits.sizes(),
                    " or class indices without dimension 1, got ", targets.scalar_type(), " ", targets.sizes());
  const int64_t classes = logits.size(1);
  std::vector<int64_t> shape = logits.sizes().vec();
  shape[1] = classes + 1;  // the last one is for negative indices
  const at::Tensor index = torch::where(targets < 0, classes, targets.to(torch::kInt64)).unsqueeze(1);
  return torch::zeros(shape, logits.options().requires_grad(false)).scatter_(1, index, 1).slice(1, 0, classes);
}

}  // namespace composer
