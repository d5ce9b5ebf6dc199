// Where a node stands in a world. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "launcher/worker_environment.h"
#include "proto/rendezvous.pb.h"

namespace composer {

// The place of the node's local rank 0, as far as the world says it. kInternal: the node is not in it, or has no slot.
absl::StatusOr<WorkerPlace> PlaceOf(const std::string& node_id, const proto::World& world);

}  // namespace composer
