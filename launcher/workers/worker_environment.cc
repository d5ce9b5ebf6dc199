// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/worker_environment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

void SetUnlessGiven(Environment& environment, absl::string_view name, absl::string_view value) {
  if (!environment.Get(name).has_value()) environment.Set(name, value);
}

// Has a worker's malloc keep what a training step frees for the next one, instead of giving it back to the kernel,
// which clears each page anew: without blocks of their own for large sizes, in steps of 64 MiB, with what is free at
// the end given back from 4 GiB on, and in huge pages. A step of GPT-2 124M on a CPU makes 300,000 page faults without
// it, and some thousand with it.
constexpr char kKeepMemory[] =
    "glibc.malloc.mmap_max=0:glibc.malloc.top_pad=67108864:glibc.malloc.trim_threshold=4294967296:"
    "glibc.malloc.hugetlb=1";

}  // namespace

Environment WorkerEnvironment(const Environment& inherited, const WorkerPlace& place) {
  Environment result = inherited;
  const std::pair<const char*, int64_t> numbers[] = {
      {"RANK", place.rank},
      {"WORLD_SIZE", place.world_size},
      {"LOCAL_RANK", place.first_local_rank + place.local_rank},
      {"LOCAL_WORLD_SIZE", place.node_workers > 0 ? place.node_workers : place.local_world_size},
      {"NODE_RANK", place.node_rank},
      {"GROUP_RANK", place.node_rank},
      {"GROUP_WORLD_SIZE", place.nodes},
      {"ROLE_RANK", place.rank},
      {"ROLE_WORLD_SIZE", place.world_size},
      {"MASTER_PORT", place.master_port},
      {"TORCHELASTIC_RESTART_COUNT", place.restart_count},
      {"TORCHELASTIC_MAX_RESTARTS", place.max_restarts},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", 1},
      {"COMPOSER_GENERATION", static_cast<int64_t>(place.generation)},
  };
  for (const auto& [name, value] : numbers) result.Set(name, absl::StrCat(value));
  result.Set("ROLE_NAME", place.role);
  result.Set("TORCHELASTIC_USE_AGENT_STORE", "False");
  if (!place.progress_page.empty()) result.Set("TORCHELASTIC_ERROR_FILE", absl::StrCat(place.progress_page, ".error"));
  result.Set("MASTER_ADDR", place.master_address);
  result.Set("COMPOSER_NODE_ADDRESS", place.node_address);
  result.Set("TORCHELASTIC_RUN_ID", place.job);
  result.Set("COMPOSER_JOB", place.job);
  result.Set("COMPOSER_HUB", place.hub);
  result.Set("COMPOSER_PROGRESS_PAGE", place.progress_page);
  if (!place.run_name.empty()) result.Set("COMPOSER_RUN_NAME", place.run_name);
  result.Remove("COMPOSER_TOKEN");  // the launcher's secret, because user code prints and uploads its environment
  result.Remove("COMPOSER_LAUNCH");
  if (place.launch > 0) result.Set("COMPOSER_LAUNCH", absl::StrCat(place.launch));
  result.Remove("COMPOSER_TERMINAL_COLUMNS");
  result.Remove("COMPOSER_TERMINAL");
  if (place.terminal_columns > 0 && !place.terminal.empty()) result.Set("COMPOSER_TERMINAL", place.terminal);
  if (place.terminal_columns > 0) result.Set("COMPOSER_TERMINAL_COLUMNS", absl::StrCat(place.terminal_columns));
  SetUnlessGiven(result, "OMP_NUM_THREADS",
                 absl::StrCat(std::max(1, place.cpus / std::max(place.cpu_sharers, place.local_world_size))));
  SetUnlessGiven(result, "PYTHONUNBUFFERED", "1");
  if (place.launch > 0) SetUnlessGiven(result, "GLIBC_TUNABLES", kKeepMemory);  // not for a program of the user's
  // LibTorch's profiler would complain that there is no driver of GPUs; it has nothing else to say above this level.
  if (place.launch > 0 && place.without_gpus) SetUnlessGiven(result, "KINETO_LOG_LEVEL", "5");
  if (!place.interface.empty() && place.nodes > 1) {
    for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) SetUnlessGiven(result, name, place.interface);
  }
  return result;
}

}  // namespace composer
