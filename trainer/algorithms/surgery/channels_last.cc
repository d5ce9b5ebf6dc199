// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/channels_last.h"

#include <torch/types.h>

#include "trainer/core/state.h"

namespace composer {
namespace {

void LayOut(const at::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  at::Tensor(tensor).set_data(tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
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
