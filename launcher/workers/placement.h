// Where a node stands in a world. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "launcher/workers/worker_environment.h"
#include "proto/rendezvous.pb.h"

namespace composer {

// Returns the place of this node's local rank 0: what all workers of the launch have in common, and what the world
// defines. Returns kInternal if the world has no place for the node.
absl::StatusOr<WorkerPlace> PlaceOf(const proto::World& world, const WorkerPlace& common);

}  // namespace composer
