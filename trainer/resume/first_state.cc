// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/first_state.h"

#include <sys/resource.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/machine_stats.h"
#include "base/status_macros.h"
#include "trainer/resume/saved_state.h"

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

namespace {

// Returns what RLIMIT_DATA leaves to this process; a large number without a limit.
int64_t DataLimitLeft() {
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<int64_t>::max();
  constexpr size_t kData = 5;  // field of proc(5)'s statm: pages of data and stack
  const absl::StatusOr<std::string> statm = ReadFile("/proc/self/statm", 4096);
  const std::vector<std::string> pages = absl::StrSplit(statm.value_or(""), ' ');
  int64_t data = 0;
  if (pages.size() <= kData || !absl::SimpleAtoi(pages[kData], &data)) return 0;
  return static_cast<int64_t>(limit.rlim_cur) - data * sysconf(_SC_PAGESIZE);
}

}  // namespace

int64_t FirstStateLimit(int world_size) {
  const absl::StatusOr<MachineMemory> memory = ReadMachineMemory();
  const int64_t machine = memory.ok() ? memory->available / 2 / std::max(1, world_size) : 0;
  return std::min(machine, DataLimitLeft() / 4);
}

}  // namespace composer
