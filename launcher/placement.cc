// SPDX-License-Identifier: Apache-2.0
#include "launcher/placement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {

absl::StatusOr<WorkerPlace> PlaceOf(const std::string& node_id, const proto::World& world) {
  const auto mine = std::find_if(world.nodes().begin(), world.nodes().end(),
                                 [&](const proto::NodePlacement& p) { return p.node().node_id() == node_id; });
  if (mine == world.nodes().end() || mine->node().slots() < 1) {
    return absl::InternalError(
        absl::StrCat("generation ", world.generation(), " has no place for this node, ", node_id));
  }
  return WorkerPlace{.rank = mine->base_rank(),
                     .world_size = world.world_size(),
                     .local_world_size = mine->node().slots(),
                     .node_rank = mine->node_rank(),
                     .nodes = world.nodes_size(),
                     .master_address = world.nodes(0).node().address(),
                     .node_address = mine->node().address(),
                     .generation = world.generation()};
}

}  // namespace composer
