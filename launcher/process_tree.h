// The processes below this one, as /proc shows them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

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

// Sends SIGKILL to the children of this process that `doomed` picks and to everything below them, reaps them, and goes
// on until none is left or `limit` is over. The caller must be a child subreaper: then a descendant whose parent ends
// becomes our child, so that also processes which called setsid or forked twice are found. Returns whether none is
// left.
bool KillChildren(const std::function<bool(pid_t)>& doomed, absl::Duration limit);

}  // namespace composer
