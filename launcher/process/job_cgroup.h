// A cgroup of the job's own on this node, where the host lets us make one (cgroup v2: root, or a delegated subtree as systemd
// and container runtimes give): the kernel then ends all that is in it with one write, also a process that forks without
// end, left its session, or emptied its environment. The spawner's and orphan reaper's searches stay: most hosts delegate nothing.
//
//   /sys/fs/cgroup/<ours>/composer-<random>    the spawner is born into it, and so is all that it starts; the launcher and its
//                                              orphan reaper are not: they end it
//
// It has no controllers of its own: memory counts for the cgroup above, as before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Our place in the v2 hierarchy, from /proc/self/cgroup: "/user.slice/…"; nullopt: there is none. Pure.
std::optional<std::string> UnifiedCgroup(absl::string_view proc_self_cgroup);

// Where cgroups of jobs are made: below our own; "" where that is not possible.
std::string JobCgroupRoot();

// A new, empty cgroup `name` below our own; its folder, or "" where that is not possible, or the kernel has no cgroup.kill
// (before 5.14).
std::string MakeJobCgroup(const std::string& name);

// fork(), with the child born in the cgroup and nothing else different, for a caller with one thread; moving a process there
// takes 10 to 20 ms. Where the kernel refuses (a sandbox, no right) the cgroup is removed, `folder` becomes "", and it is a
// fork. In the child glibc goes by the parent's thread id: it must start no threads, but may fork.
pid_t ForkInto(std::string& folder);

// SIGKILL to all that is in it, at once. False: it could not be written. "": does nothing.
bool KillCgroup(const std::string& folder);

// Removes it once it is empty, waiting for that up to a second. "": does nothing.
void RemoveCgroup(const std::string& folder);

}  // namespace composer
