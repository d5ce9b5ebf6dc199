// What a launch makes before it has a thread: the lock on the run folder, a temporary folder, the spawner, and the
// rendezvous process when this launcher serves it.
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
  std::string temp_folder;        // with plan.peer_memory it lies in memory
  std::unique_ptr<Spawner> spawner;
  int serve_port_fd = -1;  // see ReadServePort; -1: the rendezvous is not served here
};

// Whether this launcher is to serve the rendezvous: as the shape says; kIfLocal: when the endpoint is this machine's, its
// port is free, and no other launcher has the run folder. Where launchers share a host, a node of a higher rank gives node 0
// kNode0First to be the one.
// `settle_seconds`: of the rendezvous, when an earlier one may have formed a world (rendezvous/server.h).
// kFailedPrecondition: the run folder has a launcher already, whose pid it names.
absl::StatusOr<LaunchResources> MakeLaunchResources(const LaunchPlan& plan, bool endpoint_is_here,
                                                    const LaunchOptions& options, const JobSecurity& security,
                                                    const Environment& environment, int settle_seconds);

// Clears what dead launchers of this user have left here (leftovers.h, run_file.h).
void ClearLeftoversOfOthers(const LaunchPlan& plan, const LaunchResources& resources, const Environment& environment);

// How many of the endpoints may serve: those of several nodes, at most kMaxServers.
int NumServers(const LaunchShape& shape);

// How the rendezvous of a plan is served at its n-th endpoint.
ServeOptions PlanServe(const LaunchPlan& plan, const LaunchOptions& options, const JobSecurity& security,
                       int place = 0);

}  // namespace composer
