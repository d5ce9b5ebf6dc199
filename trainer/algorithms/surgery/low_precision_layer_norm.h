// LowPrecisionLayerNorm makes each LayerNorm compute in autocast's type, where autocast would have it compute in
// float32: faster, with half the memory for what backward needs. Parameters keep names and types. Without autocast
// (fp32) nothing changes.
//
// Source: mosaicml composer/algorithms/low_precision_layernorm. Fixed here: it works on CPUs, too, where Composer asks
// whether the GPU's autocast is on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

class LowPrecisionLayerNormLayer final : public torch::nn::LayerNormImpl, public Layer {
 public:
  // Has the other's options and its very parameters.
  explicit LowPrecisionLayerNormLayer(const torch::nn::LayerNormImpl& norm) : torch::nn::LayerNormImpl(norm) {}
  // Requires a floating-point input; the result has autocast's type while autocast is on.
  at::Tensor forward(const at::Tensor& x) override;
};

class LowPrecisionLayerNorm final : public Surgery {
 public:
  std::string name() const override { return "LowPrecisionLayerNorm"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
  std::string wanted() const override { return "layer norm"; }
};

}  // namespace composer
