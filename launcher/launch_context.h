// The parts of a launch as they become known, and how it finds its place among the nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/env.h"
#include "launcher/launch_resources.h"
#include "launcher/options/launch_options.h"
#include "launcher/options/launch_plan.h"
#include "launcher/platform/platform.h"
#include "launcher/rendezvous/node_address.h"
#include "launcher/rendezvous/node_memory.h"
#include "launcher/rendezvous/rendezvous_link.h"
#include "rendezvous/liveness.h"

namespace composer {

struct LaunchContext {
  const LaunchOptions& options;
  const LaunchPlan& plan;
  const Environment& environment;
  const Platform& platform;
  absl::Time launched;
  int stop_signals = -1;
  bool endpoint_is_here = true;
  NodeAddress node_address = {"127.0.0.1", "", "one node"};
  LaunchResources resources;
  bool serves = false;
  int place = -1;           // index of this node in the list of those that may serve; -1 if it is not on it
  Endpoint rendezvous;      // as this launcher reaches it
  bool first_node = false;  // of the last world
  JobSecurity security;
  std::unique_ptr<Liveness> life;      // for a job of several nodes
  std::unique_ptr<NodeMemory> memory;  // for a job with a list of rendezvous hosts, else null
};

// Determines the address at which peers reach this node. With one node it does not query the network.
void FindAddress(LaunchContext& context);

// Returns whether anyone but the users of this machine can reach the rendezvous.
bool IsReachable(const LaunchShape& shape);

// Determines the port on which the rendezvous is served, here or elsewhere.
absl::Status FindRendezvous(LaunchContext& context);

// Determines where this node stands in the list of those that may serve: at its rank if that is given, else where its
// address is.
void FindPlace(LaunchContext& context);

RendezvousPlaces PlacesOf(const LaunchContext& context);

// Returns what this node knows from an earlier life (node_memory.h), or will know. Returns null if the job has one
// rendezvous host, or this machine has no folder for it. `fresh_id` becomes its name if it has none.
std::unique_ptr<NodeMemory> OpenMemory(const LaunchPlan& plan, const Environment& environment,
                                       const std::string& fresh_id);

}  // namespace composer
