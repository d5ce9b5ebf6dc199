// What a launch makes before it has threads: the lock on the run folder, a temporary folder, the spawner and, if this
// launcher serves it, the rendezvous process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "launcher/options/launch_plan.h"
#include "launcher/process/spawner.h"
#include "launcher/rendezvous/serve.h"
#include "launcher/supervise/run_lock.h"

namespace composer {

struct LaunchResources {
  std::unique_ptr<RunLock> lock;  // null for programs, and where another launcher serves the rendezvous
  std::string temp_folder;        // lies in memory with plan.peer_memory
  std::unique_ptr<Spawner> spawner;
  int serve_port_fd = -1;  // see ReadServePort; -1 if the rendezvous is not served here
};

// Makes the resources, and decides whether this launcher serves the rendezvous: as the shape says or, for kIfLocal, if
// the endpoint is this machine's, its port is free, and no other launcher has the run folder. Where launchers share a
// host, a node of a higher rank first gives node 0 kNode0First to serve. `settle_seconds` is for the rendezvous, when
// an earlier one may have formed a world (rendezvous/server.h). Returns kFailedPrecondition, naming the pid, if the run
// folder already has a launcher.
absl::StatusOr<LaunchResources> MakeLaunchResources(const LaunchPlan& plan, bool endpoint_is_here,
                                                    const LaunchOptions& options, const JobSecurity& security,
                                                    const Environment& environment, int settle_seconds);

// Clears what dead launchers of this user have left here (leftovers.h, run_file.h).
void ClearLeftoversOfOthers(const LaunchPlan& plan, const LaunchResources& resources, const Environment& environment);

// Returns how many of the endpoints may serve: one with one node, else at most kMaxServers.
int NumServers(const LaunchShape& shape);

// Returns how the rendezvous of a plan is served at its endpoint number `place`.
ServeOptions PlanServe(const LaunchPlan& plan, const LaunchOptions& options, const JobSecurity& security,
                       int place = 0);

}  // namespace composer
