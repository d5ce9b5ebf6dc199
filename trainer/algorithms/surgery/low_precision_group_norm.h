// LowPrecisionGroupNorm makes each GroupNorm compute in autocast's type, where autocast would have it compute in
// float32, as LowPrecisionLayerNorm does for LayerNorm. Parameters keep names and types. Without autocast (fp32)
// nothing changes.
//
// Source: mosaicml composer/algorithms/low_precision_groupnorm. Fixed here: it works on CPUs, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

class LowPrecisionGroupNormLayer final : public torch::nn::GroupNormImpl, public Layer {
 public:
  // Has the other's options and its very parameters.
  explicit LowPrecisionGroupNormLayer(const torch::nn::GroupNormImpl& norm) : torch::nn::GroupNormImpl(norm) {}
  // Requires a floating-point input; the result has autocast's type while autocast is on.
  at::Tensor forward(const at::Tensor& x) override;
};

class LowPrecisionGroupNorm final : public Surgery {
 public:
  std::string name() const override { return "LowPrecisionGroupNorm"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
  std::string wanted() const override { return "group norm"; }
};

}  // namespace composer
