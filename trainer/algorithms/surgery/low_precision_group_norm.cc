// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/low_precision_group_norm.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include "trainer/core/model.h"
#include "trainer/core/state.h"
#include "trainer/layers/no_autocast.h"

namespace composer {

at::Tensor LowPrecisionGroupNormLayer::forward(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  const NoAutocastScope off(device);
  if (!off.was_enabled()) return torch::nn::GroupNormImpl::forward(x);
  const at::ScalarType type = at::autocast::get_autocast_dtype(device);
  const auto cast = [type](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(type) : tensor; };
  return at::group_norm(cast(x), options.num_groups(), cast(weight), cast(bias), options.eps());
}

absl::Status LowPrecisionGroupNorm::ChangeModel(Model& model, const ModelContext& context) {
  if (context.precision == Precision::kFp32) return absl::OkStatus();
  ReplaceLayersOf(model, context, [](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const auto* norm = module->as<torch::nn::GroupNormImpl>();
    const bool replaced = norm != nullptr && dynamic_cast<const LowPrecisionGroupNormLayer*>(norm) == nullptr;
    return replaced ? std::make_shared<LowPrecisionGroupNormLayer>(*norm) : nullptr;
  });
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> LowPrecisionGroupNorm::LayersOf(const Model& model) const {
  return {{"low_precision_groupnorm/num_layers", FindLayers(model, LayersOfType<LowPrecisionGroupNormLayer>()).size()}};
}

}  // namespace composer
