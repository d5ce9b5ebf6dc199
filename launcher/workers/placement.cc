// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/placement.h"

#include "absl/strings/str_cat.h"

namespace composer {

absl::StatusOr<WorkerPlace> PlaceOf(const proto::World& world, const WorkerPlace& common) {
  if (world.node_rank() < 0 || world.node_rank() >= world.nodes() || world.slots() < 1) {
    return absl::InternalError(absl::StrCat("generation ", world.generation(), " has no place for this node"));
  }
  WorkerPlace place = common;
  place.rank = world.base_rank();
  place.world_size = world.world_size();
  place.local_world_size = world.slots();
  place.node_rank = world.node_rank();
  place.nodes = world.nodes();
  place.master_address = world.master_address();
  place.node_address = world.node_address();
  place.generation = world.generation();
  return place;
}

}  // namespace composer
