// What a launch tells its parts: the client of the rendezvous, the supervisor, this node's share of the memory tier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "launcher/launch_context.h"
#include "launcher/peer_memory/peer_memory.h"
#include "launcher/supervise/supervisor.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/client.h"

namespace composer {

// Returns how long a rendezvous that begins anew waits for the nodes of a running world.
int RegatherSeconds(const LaunchShape& shape);

absl::StatusOr<RendezvousClient::Options> ClientOptions(const LaunchContext& context);

// `node` is what ClientOptions says of this node.
Supervisor::Options SupervisorOptions(const LaunchContext& context, const proto::NodeInfo& node);

// Starts this node's share of the memory tier if the job wants it, else returns null. Adds its location to `workers`.
absl::StatusOr<std::unique_ptr<PeerMemory>> StartPeerMemory(const LaunchContext& context,
                                                            const Credentials& credentials, Environment& workers);

}  // namespace composer
