// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/schedule/layer_freezing.h"

#include <vector>

#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

// Depth first; a layer is a module with parameters and without children.
void AddLayers(torch::nn::Module& module, std::vector<torch::nn::Module*>& layers) {
  const auto children = module.children();
  if (children.empty() && !module.parameters(/*recurse=*/false).empty()) layers.push_back(&module);
  for (const auto& child : children) AddLayers(*child, layers);
}

}  // namespace

double FrozenPart(const LayerFreezingOptions& options, double elapsed) {
  if (elapsed <= options.freeze_start) return 0;
  return options.freeze_level * (elapsed - options.freeze_start) / (1 - options.freeze_start);
}

int64_t FreezeLayers(torch::nn::Module& model, double part) {
  std::vector<torch::nn::Module*> layers;
  AddLayers(model, layers);
  if (layers.empty()) return 0;
  const auto depth = static_cast<size_t>(part * static_cast<double>(layers.size() - 1));
  for (size_t i = 0; i < depth; ++i) {
    for (at::Tensor& param : layers[i]->parameters(/*recurse=*/false)) param.set_requires_grad(false);
  }
  return static_cast<int64_t>(depth);
}

absl::Status LayerFreezing::Apply(Event /*event*/, State& state, Logger& logger) {
  const double part = FrozenPart(options_, ElapsedFraction(state.timestamp, state.max_duration));
  const int64_t depth = FreezeLayers(*state.model, part);
  logger.Log("layer_freezing/layers_frozen", static_cast<double>(depth));
  logger.Log("layer_freezing/percentage_frozen", part);
  return absl::OkStatus();
}

}  // namespace composer
