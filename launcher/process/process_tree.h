// The processes below this one, as /proc shows them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

// Children of a process at this moment (of all its threads), zombies included; empty when it is gone.
std::vector<pid_t> ChildrenOf(pid_t pid);

// `roots` and everything below them.
std::vector<pid_t> WithDescendants(std::vector<pid_t> roots);

// 'R' running, 'S' sleeping, 'D' uninterruptible wait, 'T' stopped by a signal, 'Z' zombie, …; 0: gone.
char ProcessState(pid_t pid);

// Where in the kernel the main thread waits: "futex_do_wait", "do_sys_poll"; "0": it computes; "": not told.
std::string WaitChannel(pid_t pid);

// What a process and everything below it have done since they began.
struct ProcessWork {
  absl::Duration cpu;
  int64_t bytes = 0;     // read and written, as far as the kernel tells us
  bool stopped = false;  // the process itself, by a signal or a debugger
};
ProcessWork WorkOf(pid_t pid);

// The processor time in a /proc/<pid>/stat, with that of children it has waited for; zero for any other text. Pure.
absl::Duration CpuTimeOf(absl::string_view proc_stat, int64_t ticks_per_second);
// rchar + wchar + read_bytes of a /proc/<pid>/io: system calls, and pages that came from a disk. Pure.
int64_t BytesOf(absl::string_view proc_io);

// Sends SIGKILL to the children of this process that `doomed` picks and to everything below them, reaps them, and goes
// on until none is left or `limit` is over. The caller must be a child subreaper: then a descendant whose parent ends
// becomes our child, so that also processes which called setsid or forked twice are found. Returns whether none is
// left.
bool KillChildren(const std::function<bool(pid_t)>& doomed, absl::Duration limit);

}  // namespace composer
