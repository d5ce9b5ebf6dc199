// The last guard against orphans: a process that does nothing until both the launcher and its spawner are gone (killed
// together, as by `pkill -9 composer` or a cgroup's OOM killer), then ends what they left.
//
// By then the descendants are not ours: the kernel has killed the workers themselves (parent-death signal) and given
// everything they had started to init. They are found by their environment, which carries the launcher's temporary folder
// (COMPOSER_HUB), random and of this launch alone. A descendant that emptied its environment is found only where the host
// gave the job a cgroup.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace composer {

// Forks the orphan reaper; returns its pid, or -1. It lives until every copy of the returned write end (close-on-exec, held by
// the caller) is closed; then it kills, removes `temp_folder`, and exits. The caller has one thread.
struct OrphanReaper {
  pid_t pid = -1;
  int alive_fd = -1;
};
// `cgroup`: of the job (job_cgroup.h), ended with one write first and removed; "": none.
OrphanReaper StartOrphanReaper(const std::string& temp_folder, const std::string& cgroup = "");

// Pids of all live processes but this one whose initial environment contains `needle`.
std::vector<pid_t> ProcessesWithEnvironment(const std::string& needle);

}  // namespace composer
