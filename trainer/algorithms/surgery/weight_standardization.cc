// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/weight_standardization.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "trainer/core/model.h"

namespace composer {

at::Tensor StandardizeWeights(const at::Tensor& weight) {
  std::vector<int64_t> dims(static_cast<size_t>(weight.dim() - 1));
  std::iota(dims.begin(), dims.end(), int64_t{1});
  const auto [variance, mean] = at::var_mean(weight, dims, /*unbiased=*/false, /*keepdim=*/true);
  return (weight - mean) / at::sqrt(variance + 1e-10);
}

absl::Status WeightStandardization::ChangeModel(Model& model, const ModelContext& context) {
  const auto all = static_cast<int64_t>(FindLayers(model, LayersOfType<torch::nn::Conv2dImpl>()).size());
  int64_t left = std::max<int64_t>(0, all - n_last_layers_ignore_);
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const auto* conv = module->as<torch::nn::Conv2dImpl>();
    const bool replaced = conv != nullptr && left-- > 0 && dynamic_cast<const StandardizedConv2d*>(conv) == nullptr;
    return replaced ? std::make_shared<StandardizedConv2d>(*conv) : nullptr;
  });
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> WeightStandardization::LayersOf(const Model& model) const {
  return {
      {"WeightStandardization/num_weights_standardized", FindLayers(model, LayersOfType<StandardizedConv2d>()).size()}};
}

}  // namespace composer
