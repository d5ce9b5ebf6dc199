// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/channels_last.h"

#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <algorithm>

#include "trainer/core/state.h"

namespace composer {
namespace {

void LayOut(const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  at::Tensor(tensor).set_data(tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
}

// LibTorch 2.11's backward pass of GroupNorm with the channels innermost writes to the gradient of its input without
// looking whether one is wanted, which is none where all layers before it are frozen: a segmentation fault.
bool FreezesBeforeGroupNorm(const State& state) {
  const auto modules = state.model->modules();
  const bool has_group_norm = std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    return module->template as<torch::nn::GroupNormImpl>() != nullptr;
  });
  return has_group_norm && std::any_of(state.algorithms.begin(), state.algorithms.end(),
                                       [](const auto& other) { return other->name() == "LayerFreezing"; });
}

}  // namespace

int64_t ApplyChannelsLast(Model& model) {
  int64_t count = 0;
  for (const at::Tensor& param : model.parameters()) {
    if (param.dim() != 4) continue;
    LayOut(param);
    ++count;
  }
  return count;
}

absl::Status ChannelsLast::Apply(Event event, State& state, Logger& /*logger*/) {
  if (event == Event::kInit) {
    if (FreezesBeforeGroupNorm(state))
      return absl::InvalidArgumentError(
          "channels_last: LibTorch has no backward pass for GroupNorm with the channels innermost behind frozen "
          "layers; leave channels_last or layer_freezing out");
    if (state.sharding == nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "channels_last: parallelism_config.fsdp makes parameters flat pieces, which have no channels; leave one of the "
        "two out");
  }
  ApplyChannelsLast(*state.model);
  for (const auto& [name, tensor] : state.optimizer->state()) {
    if (tensor.dim() == 4) LayOut(tensor);
  }
  return absl::OkStatus();
}

}  // namespace composer
