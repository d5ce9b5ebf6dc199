// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/conv1d_layer.h"

#include <torch/nn/module.h>
#include <torch/types.h>

namespace composer {

Conv1dLayer::Conv1dLayer(int64_t in, int64_t out)
    : weight(register_parameter("weight", torch::empty({in, out}).normal_(0, 0.02))),
      bias(register_parameter("bias", torch::zeros({out}))) {}

at::Tensor Conv1dLayer::forward(const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(1);
  return at::addmm(bias, x.reshape({-1, x.size(-1)}), weight).view(sizes);
}

}  // namespace composer
