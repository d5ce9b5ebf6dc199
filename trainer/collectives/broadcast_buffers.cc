// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/broadcast_buffers.h"

#include <torch/types.h>

#include <algorithm>
#include <vector>

namespace composer {
namespace {

// Returns a view with elements that share memory, like those of an expanded tensor, only once.
at::Tensor WithoutRepeats(at::Tensor tensor) {
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) tensor = tensor.narrow(dim, 0, 1);
  }
  return tensor;
}

// Broadcasts tensors of one dtype in one collective.
void BroadcastTogether(const std::vector<at::Tensor>& tensors, Communicator& communicator) {
  std::vector<at::Tensor> parts, flat;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(WithoutRepeats(tensor));
    flat.push_back(parts.back().to(communicator.device()).reshape(-1));
  }
  const at::Tensor all = at::cat(flat);
  communicator.Broadcast(all, 0);
  if (communicator.rank() == 0) return;
  int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    part.copy_(all.narrow(0, begin, part.numel()).view(part.sizes()));
    begin += part.numel();
  }
}

}  // namespace

void BroadcastBuffers(const State& state, Communicator& communicator) {
  if (communicator.world_size() == 1) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors = state.model->buffers();
  for (const auto& algorithm : state.algorithms) {
    for (const KeptTensor& kept : algorithm->tensors()) {
      if (!kept.param.defined()) tensors.push_back(kept.tensor);
    }
  }
  // The groups are by dtype, in order of first appearance, which is the same on all ranks.
  std::vector<std::vector<at::Tensor>> groups;
  for (at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const auto fits = [&tensor](const std::vector<at::Tensor>& group) {
      int64_t bytes = static_cast<int64_t>(tensor.nbytes());
      for (const at::Tensor& other : group) bytes += static_cast<int64_t>(other.nbytes());
      return group[0].scalar_type() == tensor.scalar_type() && bytes <= kBroadcastBytes;
    };
    const auto group = std::find_if(groups.begin(), groups.end(), fits);
    (group == groups.end() ? groups.emplace_back() : *group).push_back(tensor);
  }
  for (const std::vector<at::Tensor>& group : groups) BroadcastTogether(group, communicator);
}

}  // namespace composer
