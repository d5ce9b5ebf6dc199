// Parses what the kernel and the host's files report about killed processes, on arbitrary bytes. Only bounded results
// are required.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "launcher/process/kill_evidence.h"
#include "launcher/supervise/user_error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto kill = composer::ParseKernelRecord(text); kill.has_value()) {
    if (kill->pid <= 0 || kill->command.size() > 15 || kill->anonymous_kib < -1) std::abort();
    composer::KillEvidence evidence{.status = {.signal = 9}, .named = kill};
    if (composer::JudgeKill(evidence).killer != composer::Killer::kOutOfMemory) std::abort();
  }
  if (const auto kills = composer::ParseOomKills(text); kills.has_value() && *kills < 0) std::abort();
  if (const auto cgroup = composer::ParseMemoryCgroup(text); cgroup.has_value() && cgroup->path[0] != '/') std::abort();
  if (composer::ParseAvailableMemory(text) < -1) std::abort();
  if (composer::UserError({.code = 1}, text).size() > 400) std::abort();
  return 0;
}
