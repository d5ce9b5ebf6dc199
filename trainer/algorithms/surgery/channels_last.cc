// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/channels_last.h"

#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/core/block.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

void LayOut(const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  at::Tensor(tensor).set_data(tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
}

// LibTorch 2.11's backward pass of GroupNorm with the channels innermost writes to the gradient of its input without
// looking whether one is wanted, which is none where everything before it is frozen: a segmentation fault. Such an
// input is laid out plainly.
class PlainInput final : public BlockWrapper {
 public:
  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override {
    if (inputs.at(0).requires_grad() || !at::GradMode::is_enabled()) return inner(inputs);
    std::vector<at::Tensor> plain = inputs;
    plain[0] = inputs[0].contiguous();
    return inner(plain);
  }
};

void ProtectGroupNorms(Model& model) {
  const auto wrapper = std::make_shared<PlainInput>();
  for (const auto& module : model.modules()) {
    if (module->as<torch::nn::GroupNormImpl>() != nullptr && WhyNotWrapped(*module).empty())
      WrapLayer(*module, wrapper);
  }
}

// Returns an error that names a GroupNorm that cannot be protected, where layers will be frozen.
absl::Status CheckGroupNorms(const State& state) {
  const bool freezes = std::any_of(state.algorithms.begin(), state.algorithms.end(),
                                   [](const auto& other) { return other->name() == "LayerFreezing"; });
  if (!freezes) return absl::OkStatus();
  for (const auto& item : state.model->named_modules()) {
    if (item.value()->as<torch::nn::GroupNormImpl>() == nullptr) continue;
    if (const std::string why_not = WhyNotWrapped(*item.value()); !why_not.empty())
      return absl::InvalidArgumentError(absl::StrCat(
          "channels_last: LibTorch has no backward pass for the GroupNorm ", item.key(),
          " with the channels innermost behind frozen layers, and its input cannot be laid out plainly: ", why_not,
          "; leave channels_last or layer_freezing out"));
  }
  return absl::OkStatus();
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
    RETURN_IF_ERROR(CheckGroupNorms(state));
    if (state.sharding == nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "channels_last: parallelism_config.fsdp makes parameters flat pieces, which have no channels; leave one of the "
        "two out");
  }
  ApplyChannelsLast(*state.model);
  if (!std::exchange(protects_, true)) ProtectGroupNorms(*state.model);
  for (const auto& [name, tensor] : state.optimizer->state()) {
    if (tensor.dim() == 4) LayOut(tensor);
  }
  return absl::OkStatus();
}

}  // namespace composer
