// GPT-2's linear layer, whose weight is [in, out]. Source: transformers pytorch_utils.py, Conv1D.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/layers/torch_layers.h"

namespace composer {

class Conv1dLayer final : public torch::nn::Module, public Layer {
 public:
  Conv1dLayer(int64_t in, int64_t out);
  // Maps [.., in] to [.., out].
  at::Tensor forward(const at::Tensor& x) override;

  at::Tensor weight, bias;
  LinearLayer::Division division;
};

}  // namespace composer
