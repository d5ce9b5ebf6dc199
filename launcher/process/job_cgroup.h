// Gives the job a cgroup of its own on this node, where the host lets us make one (cgroup v2 as root, or in a delegated
// subtree such as systemd and container runtimes provide). The kernel then kills everything in it with one write, even
// a process that forks endlessly, left its session, or emptied its environment. The spawner and the orphan reaper still
// search for processes, because most hosts delegate nothing.
//
//   /sys/fs/cgroup/<ours>/composer-<random>    The spawner and everything that it starts are born into it. The launcher
//                                              and its orphan reaper stay outside, because they kill it.
//
// It has no controllers of its own: memory is still charged to the parent cgroup.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Returns our path in the v2 hierarchy, such as "/user.slice/…", from the text of /proc/self/cgroup; nullopt if there
// is none. Pure.
std::optional<std::string> UnifiedCgroup(absl::string_view proc_self_cgroup);

// Returns the folder in which job cgroups are made, which is our own cgroup; "" where none can be made.
std::string JobCgroupRoot();

// Makes a new, empty cgroup `name` below our own and returns its folder. Returns "" where that is impossible or the
// kernel has no cgroup.kill (before 5.14).
std::string MakeJobCgroup(const std::string& name);

// Behaves like fork(), but the child is born in the cgroup `folder`; moving a process there later takes 10 to 20 ms.
// The caller must have one thread. Where the kernel refuses (sandbox, missing permission), it removes the cgroup, sets
// `folder` to "" and calls fork(). glibc in the child still uses the parent's thread id, so the child must not start
// threads, but it may fork.
pid_t ForkInto(std::string& folder);

// Sends SIGKILL to every process in the cgroup at once. Returns false if the write fails or `folder` is "".
bool KillCgroup(const std::string& folder);

// Removes the cgroup once it is empty, waiting up to a second for that. Does nothing if `folder` is "".
void RemoveCgroup(const std::string& folder);

}  // namespace composer
