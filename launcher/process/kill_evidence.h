// Who killed a worker? Pure: what the host could tell goes in, a verdict and its reason come out. oom_watch.h reads the
// evidence.
//
//   died of SIGKILL (or left with 137, as a shell does whose child died so), and
//     we had sent it                                    kOurs
//     the kernel log names the process                  kOutOfMemory
//     its cgroup's oom_kill counter has risen           kOutOfMemory
//     none of this, and neither source could be read    kPerhapsOutOfMemory when the node or the cgroup is nearly full,
//                                                       else kUnknown
//     none of this, though a source could be read       kSomeone: a person, a scheduler, a container runtime
//   failed in another way while the counter rose        kHelperOutOfMemory: a process it had started was killed
//
// A counter is enough for a verdict: cgroup v1 and v2 both count per cgroup which the kernel kills for want of memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/process.h"

namespace composer {

// One line of the kernel log about a process it killed for want of memory.
struct OomKill {
  int pid = 0;                 // as the first process namespace counts
  std::string command;         // at most 15 bytes, as the kernel keeps it
  int64_t anonymous_kib = -1;  // of its memory; -1: not said
  bool cgroup = false;         // its cgroup's limit, not the node's memory
};

struct KillEvidence {
  ExitStatus status;
  bool sent_by_us = false;
  // oom_kill of the launcher's cgroup when the generation began and now; unknown: no such file.
  std::optional<int64_t> oom_kills_before;
  std::optional<int64_t> oom_kills_now;
  bool kernel_log_read = false;  // the log of the time since the generation began was there to be read
  std::optional<OomKill> named;  // the log's line about this process
  std::optional<OomKill> other;  // the log's last line about a process that is not one of our workers
  int64_t available_bytes = -1;  // of the node (MemAvailable) or, when less, up to the cgroup's limit; -1: unknown
  int64_t resident_bytes = -1;   // of the worker when last heard of; -1: unknown
};

enum class Killer { kNobody, kOurs, kOutOfMemory, kHelperOutOfMemory, kPerhapsOutOfMemory, kSomeone, kUnknown };

struct KillVerdict {
  Killer killer = Killer::kNobody;
  std::string reason;  // to be put behind "was killed by SIGKILL (9)"; empty: there is nothing to add
};

KillVerdict JudgeKill(const KillEvidence& evidence);

// Below this a node or cgroup counts as nearly full.
inline constexpr int64_t kNearlyFullBytes = int64_t{128} << 20;

// A record of /dev/kmsg ("6,1234,987654,-;Out of memory: Killed process 77 (python3) total-vm:…"). Nothing for any other
// line, and for lines that a program wrote there itself.
std::optional<OomKill> ParseKernelRecord(absl::string_view record);

// "oom_kill N" in memory.events (cgroup v2) or memory.oom_control (v1).
std::optional<int64_t> ParseOomKills(absl::string_view text);

// Path of the memory cgroup out of /proc/self/cgroup: of v1's memory controller when there is one, else v2's.
struct MemoryCgroup {
  bool v2 = false;
  std::string path;  // "/user.slice/…"
};
std::optional<MemoryCgroup> ParseMemoryCgroup(absl::string_view text);

// Bytes of a "MemAvailable:   123 kB" line of /proc/meminfo; -1: none.
int64_t ParseAvailableMemory(absl::string_view text);

}  // namespace composer
