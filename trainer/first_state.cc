// SPDX-License-Identifier: Apache-2.0
#include "trainer/first_state.h"

#include <torch/torch.h>

#include <algorithm>

#include "base/status_macros.h"
#include "trainer/core/machine_stats.h"
#include "trainer/saved_state.h"

namespace composer {

std::optional<FirstState> FirstState::Copy(const State& state, int64_t max_bytes) {
  const at::NoGradGuard no_grad;
  const StateDict live = SavedTensors(state, /*weights_only=*/false);
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : live.tensors) tensors.push_back(tensor);
  for (const ShardedTensor& tensor : live.sharded) {
    for (const Shard& shard : tensor.shards) tensors.push_back(shard.data);
  }
  FirstState first;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    Kept kept{tensor.detach(), {}};
    const bool comparable = !c10::isFloat8Type(tensor.scalar_type());
    if (tensor.numel() > 0 && (!comparable || kept.tensor.ne(0).any().item<bool>())) {
      bytes += static_cast<int64_t>(tensor.nbytes());
      if (bytes > max_bytes) return std::nullopt;
      kept.copy = kept.tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    }
    first.kept_.push_back(std::move(kept));
  }
  return first;
}

absl::Status FirstState::Restore(State& state) const {
  const at::NoGradGuard no_grad;
  for (const auto& algorithm : state.algorithms) RETURN_IF_ERROR(algorithm->PrepareLoad(""));
  for (const Kept& kept : kept_) {
    at::Tensor tensor = kept.tensor;
    kept.copy.defined() ? tensor.copy_(kept.copy) : tensor.zero_();
  }
  return absl::OkStatus();
}

int64_t FirstStateLimit(int world_size) {
  const absl::StatusOr<MachineMemory> memory = ReadMachineMemory();
  return memory.ok() ? memory->available / 2 / std::max(1, world_size) : 0;
}

}  // namespace composer
