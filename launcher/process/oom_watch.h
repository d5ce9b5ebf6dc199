// Reads what this host can report about processes killed for lack of memory: the oom_kill counter of our memory cgroup
// (v1 or v2), the kernel log, and the memory that is left. Each source may be missing; kill_evidence.h judges what
// there is. Not thread-safe. No call blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/kill_evidence.h"

namespace composer {

class OomWatch {
 public:
  struct Places {
    std::string proc = "/proc";
    std::string cgroup = "/sys/fs/cgroup";
    std::string kernel_log = "/dev/kmsg";
  };

  // Opens the kernel log at its end. Never fails: what cannot be read stays unknown.
  explicit OomWatch(Places places);
  ~OomWatch();
  OomWatch(const OomWatch&) = delete;
  OomWatch& operator=(const OomWatch&) = delete;

  // Starts a new generation: whatever the log and the counter say so far belongs to earlier ones.
  void Begin();
  // Returns the host's part of the evidence about a process that has just ended. `workers` holds all pids of the
  // generation.
  KillEvidence Look(pid_t pid, const std::vector<pid_t>& workers);

 private:
  std::optional<int64_t> ReadOomKills() const;
  int64_t ReadAvailable() const;
  void ReadKernelLog();

  const Places places_;
  std::string cgroup_folder_;  // "" if no memory cgroup is visible
  bool v2_ = false;
  bool own_pids_ = false;  // we are in the initial pid namespace, so the log's pids are ours
  int log_fd_ = -1;
  std::optional<int64_t> before_;
  std::vector<OomKill> kills_;  // since Begin
};

}  // namespace composer
