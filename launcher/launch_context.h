// What a launch is made of, as it becomes known, and how it finds its place among the nodes.
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
  int place = -1;           // of this node in the list of those that may serve; -1: it is not on it
  Endpoint rendezvous;      // as this launcher reaches it
  bool first_node = false;  // of the last world
  JobSecurity security;
  std::unique_ptr<Liveness> life;      // of a job of several nodes
  std::unique_ptr<NodeMemory> memory;  // of a job with a list of rendezvous hosts, else null
};

// The address that peers reach this node at. With one node nothing is asked of the network.
void FindAddress(LaunchContext& context);

// Whether others than the users of this machine can reach the rendezvous.
bool IsReachable(const LaunchShape& shape);

// The port on which the rendezvous is served, here or elsewhere.
absl::Status FindRendezvous(LaunchContext& context);

// Where this node stands in the list of those that may serve: at its rank when it is given, else where its address is.
void FindPlace(LaunchContext& context);

RendezvousPlaces PlacesOf(const LaunchContext& context);

// What this node knows from a life before (node_memory.h), or will; null: the job has one rendezvous host, or this machine
// no folder for it. `fresh_id`: its name if it knows none.
std::unique_ptr<NodeMemory> OpenMemory(const LaunchPlan& plan, const Environment& environment,
                                       const std::string& fresh_id);

}  // namespace composer
