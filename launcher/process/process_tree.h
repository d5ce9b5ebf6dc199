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

// Returns the current children of a process (of all its threads), zombies included; empty when the process is gone.
std::vector<pid_t> ChildrenOf(pid_t pid);

// Returns `roots` and everything below them.
std::vector<pid_t> WithDescendants(std::vector<pid_t> roots);

// Returns 'R' running, 'S' sleeping, 'D' uninterruptible wait, 'T' stopped by a signal, 'Z' zombie, …; 0 if it is gone.
char ProcessState(pid_t pid);

// Returns where in the kernel the main thread waits, such as "futex_do_wait" or "do_sys_poll"; "0" if it is running; ""
// if the kernel does not report it.
std::string WaitChannel(pid_t pid);

// The work that a process and everything below it have done since they began.
struct ProcessWork {
  absl::Duration cpu;
  int64_t bytes = 0;     // read and written, as far as the kernel reports it
  bool stopped = false;  // the process itself is stopped, by a signal or a debugger
};
ProcessWork WorkOf(pid_t pid);

// Returns the CPU time in the text of /proc/<pid>/stat, including that of children it has waited for; zero for any
// other text. Pure.
absl::Duration CpuTimeOf(absl::string_view proc_stat, int64_t ticks_per_second);
// Returns rchar + wchar + read_bytes of the text of /proc/<pid>/io: bytes of system calls and of pages read from a
// disk. Pure.
int64_t BytesOf(absl::string_view proc_io);

// Sends SIGKILL to the children of this process that `doomed` selects and to everything below them, reaps them, and
// repeats until none is left or `limit` has passed. Returns whether none is left. The caller must be a child subreaper:
// a descendant whose parent ends then becomes our child, so even processes that called setsid or forked twice are
// found.
bool KillChildren(const std::function<bool(pid_t)>& doomed, absl::Duration limit);

}  // namespace composer
