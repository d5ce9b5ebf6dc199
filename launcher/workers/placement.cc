// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/placement.h"

#include "absl/strings/str_cat.h"

namespace composer {

absl::StatusOr<WorkerPlace> PlaceOf(const proto::World& world) {
  if (world.node_rank() < 0 || world.node_rank() >= world.nodes() || world.slots() < 1) {
    return absl::InternalError(absl::StrCat("generation ", world.generation(), " has no place for this node"));
  }
  return WorkerPlace{.rank = world.base_rank(),
                     .world_size = world.world_size(),
                     .local_world_size = world.slots(),
                     .node_rank = world.node_rank(),
                     .nodes = world.nodes(),
                     .master_address = world.master_address(),
                     .node_address = world.node_address(),
                     .generation = world.generation()};
}

}  // namespace composer
