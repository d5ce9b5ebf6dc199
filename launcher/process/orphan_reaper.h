// The last guard against orphans: a process that does nothing until both the launcher and its spawner are gone (killed
// together, for example by `pkill -9 composer` or a cgroup's OOM killer), and then kills what they left.
//
// By then the descendants are no longer ours: the kernel has killed the workers themselves (parent-death signal) and
// reparented everything that they had started to init. They are found by their environment, which contains the
// launcher's temporary folder (COMPOSER_HUB), a random name unique to this launch. A descendant that emptied its
// environment is found only where the host gave the job a cgroup.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace composer {

// The orphan reaper's pid, or -1, and the write end of its pipe (close-on-exec, held by the caller). The reaper lives
// until every copy of the write end is closed; then it kills, removes `temp_folder`, and exits.
struct OrphanReaper {
  pid_t pid = -1;
  int alive_fd = -1;
};
// Forks the orphan reaper. The caller must have one thread. `cgroup` is the job's (job_cgroup.h): it is killed first,
// with one write, and then removed; "" if there is none.
OrphanReaper StartOrphanReaper(const std::string& temp_folder, const std::string& cgroup = "");

// Returns the pids of all live processes except this one whose initial environment contains `needle`.
std::vector<pid_t> ProcessesWithEnvironment(const std::string& needle);

}  // namespace composer
