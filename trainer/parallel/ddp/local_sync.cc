// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/ddp/local_sync.h"

namespace composer {

void LocalSync::Finish() {
  check_.Reset();
  if (params_.empty()) return;
  if (params_[0].is_cpu()) {
    for (const at::Tensor& param : params_) check_.Add(param.grad());
    return;
  }
  std::vector<at::Tensor> grads;
  for (const at::Tensor& param : params_) grads.push_back(param.grad());
  check_.Add(grads);
}

}  // namespace composer
