// A cgroup of the job's own on this node, where the host lets us make one (cgroup v2: root, or a delegated subtree as systemd
// and container runtimes give): the kernel then ends all that is in it with one write, also a process that forks without
// end, left its session, or emptied its environment. The keeper's and warden's searches stay: most hosts delegate nothing.
//
//   /sys/fs/cgroup/<ours>/composer-<random>    workers are born into it (clone3); launcher, keeper and rendezvous are not
//
// It has no controllers of its own: memory counts for the cgroup above, as before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Our place in the v2 hierarchy, from /proc/self/cgroup: "/user.slice/…"; nullopt: there is none. Pure.
std::optional<std::string> UnifiedCgroup(absl::string_view proc_self_cgroup);

// A new, empty cgroup `name` below our own; its folder, or "" where that is not possible, or the kernel has no cgroup.kill
// (before 5.14).
std::string MakeJobCgroup(const std::string& name);

// SIGKILL to all that is in it, at once. False: it could not be written. "": does nothing.
bool KillCgroup(const std::string& folder);

// Removes it once it is empty, waiting for that up to a second. "": does nothing.
void RemoveCgroup(const std::string& folder);

}  // namespace composer
