// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/low_precision_layer_norm.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include "trainer/core/model.h"
#include "trainer/core/state.h"
#include "trainer/layers/no_autocast.h"

namespace composer {
at::Tensor LowPrecisionLayerNormLayer::forward(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return torch::nn::LayerNormImpl::forward(x);
  const at::ScalarType type = at::autocast::get_autocast_dtype(device);
  const auto cast = [type](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(type) : tensor; };
  const NoAutocastScope off(device);
  return at::layer_norm(cast(x), options.normalized_shape(), cast(weight), cast(bias), options.eps());
}

absl::Status LowPrecisionLayerNorm::ChangeModel(Model& model, const ModelContext& context) {
  if (context.precision == Precision::kFp32) return absl::OkStatus();
  ReplaceLayersOf(model, context, [](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const auto* norm = module->as<torch::nn::LayerNormImpl>();
    const bool replaced = norm != nullptr && dynamic_cast<const LowPrecisionLayerNormLayer*>(norm) == nullptr;
    return replaced ? std::make_shared<LowPrecisionLayerNormLayer>(*norm) : nullptr;
  });
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> LowPrecisionLayerNorm::LayersOf(const Model& model) const {
  return {{"low_precision_layernorm/num_layers", FindLayers(model, LayersOfType<LowPrecisionLayerNormLayer>()).size()}};
}

}  // namespace composer
