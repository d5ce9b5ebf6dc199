// Decides who killed a worker. Pure: takes what the host could report and returns a verdict with its reason.
// oom_watch.h reads the evidence.
//
//   It died of SIGKILL (or exited with 137, as a shell does whose child died so), and
//     we had sent the signal                            kOurs
//     the kernel log names the process                  kOutOfMemory
//     its cgroup's oom_kill counter has risen           kOutOfMemory
//     none of these, and neither source was readable    kPerhapsOutOfMemory when the node or the cgroup is nearly full,
//                                                       else kUnknown
//     none of these, though a source was readable       kSomeone: a person, a scheduler, a container runtime
//   It failed in another way while the counter rose     kHelperOutOfMemory: a process that it had started was killed
//
// A counter is enough for a verdict, because cgroup v1 and v2 both count OOM kills per cgroup.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/process.h"

namespace composer {

// One line of the kernel log about a process that was killed for lack of memory.
struct OomKill {
  int pid = 0;                 // in the initial pid namespace
  std::string command;         // truncated to 15 bytes by the kernel
  int64_t anonymous_kib = -1;  // its anonymous memory; -1 if not stated
  bool cgroup = false;         // the cgroup hit its limit, not the node
};

struct KillEvidence {
  ExitStatus status;
  bool sent_by_us = false;
  // The oom_kill counter of the launcher's cgroup when the generation began and now; unset if there is no such file.
  std::optional<int64_t> oom_kills_before;
  std::optional<int64_t> oom_kills_now;
  bool kernel_log_read = false;  // the log since the generation began was readable
  std::optional<OomKill> named;  // the log's line about this process
  std::optional<OomKill> other;  // the log's last line about a process that is not one of our workers
  int64_t available_bytes = -1;  // left on the node (MemAvailable) or, if less, up to the cgroup's limit; -1 if unknown
  int64_t resident_bytes = -1;   // of the worker at its last report; -1 if unknown
};

enum class Killer { kNobody, kOurs, kOutOfMemory, kHelperOutOfMemory, kPerhapsOutOfMemory, kSomeone, kUnknown };

struct KillVerdict {
  Killer killer = Killer::kNobody;
  std::string reason;  // follows "was killed by SIGKILL (9)"; empty if there is nothing to add
};

KillVerdict JudgeKill(const KillEvidence& evidence);

// A node or cgroup with less available memory than this counts as nearly full.
inline constexpr int64_t kNearlyFullBytes = int64_t{128} << 20;

// Parses a record of /dev/kmsg ("6,1234,987654,-;Out of memory: Killed process 77 (python3) total-vm:…"). Returns
// nullopt for any other line, and for lines that a program wrote there itself.
std::optional<OomKill> ParseKernelRecord(absl::string_view record);

// Returns N of "oom_kill N" in memory.events (cgroup v2) or memory.oom_control (v1).
std::optional<int64_t> ParseOomKills(absl::string_view text);

// The path of the memory cgroup in /proc/self/cgroup: that of v1's memory controller if there is one, else v2's.
struct MemoryCgroup {
  bool v2 = false;
  std::string path;  // "/user.slice/…"
};
std::optional<MemoryCgroup> ParseMemoryCgroup(absl::string_view text);

// Returns the bytes in a "MemAvailable:   123 kB" line of /proc/meminfo; -1 if there is none.
int64_t ParseAvailableMemory(absl::string_view text);

}  // namespace composer
