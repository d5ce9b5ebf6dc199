// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/mesh.h"

#include <c10/util/Exception.h>

#include <cstdint>

#include "trainer/core/communicator.h"

namespace composer {

Mesh::Mesh(Communicator& world, const MeshShape& shape) : shape_(shape), world_(world) {
  TORCH_CHECK_VALUE(shape.replicate >= 1 && shape.shard >= 1 && shape.tensor >= 1 &&
                        int64_t{shape.replicate} * shape.shard * shape.tensor == world.world_size(),
                    "a mesh of replicate ", shape.replicate, " x shard ", shape.shard, " x tensor ", shape.tensor,
                    " does not have the ", world.world_size(), " ranks of this run");
  const int rank = world.rank(), tensor = rank % shape.tensor, row = rank / shape.tensor;
  tensor_ = Group(shape.tensor, row, "mesh_tensor");
  shard_ = Group(shape.shard, row / shape.shard * shape.tensor + tensor, "mesh_shard");
  replicate_ = Group(shape.replicate, row % shape.shard * shape.tensor + tensor, "mesh_replicate");
  if (shape.replicate == 1) {
    data_ = shard_;
  } else if (shape.shard == 1) {
    data_ = replicate_;
  } else {
    data_ = Group(shape.replicate * shape.shard, tensor, "mesh_data");
  }
}

Communicator* Mesh::Group(int size, int color, const char* name) {
  if (size == world_.world_size()) return &world_;
  owned_.push_back(size == 1 ? std::make_unique<LocalCommunicator>(world_.device()) : world_.Split(color, name));
  return owned_.back().get();
}

}  // namespace composer
