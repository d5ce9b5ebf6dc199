// Where a node stands in a world. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "launcher/workers/worker_environment.h"
#include "proto/rendezvous.pb.h"

namespace composer {

// Returns the place of this node's local rank 0, as far as the world defines it. Returns kInternal if the world has no
// place for the node.
absl::StatusOr<WorkerPlace> PlaceOf(const proto::World& world);

}  // namespace composer
