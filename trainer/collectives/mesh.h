// Mesh arranges the ranks of a run as replicate x shard x tensor and holds the communicators along its axes.
//
// rank = (replicate * shard_degree + shard) * tensor_degree + tensor: the ranks of a tensor-parallel group are
// neighbours (they communicate most), then those of a shard group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "trainer/core/communicator.h"
#include "trainer/options/mesh_shape.h"

namespace composer {

class Mesh {
 public:
  // A collective; world must outlive the mesh. Throws c10::ValueError unless the degrees are >= 1 and their product is
  // world.world_size().
  Mesh(Communicator& world, const MeshShape& shape);

  const MeshShape& shape() const { return shape_; }
  Communicator& world() { return world_; }
  Communicator& replicate() { return *replicate_; }  // ranks with this rank's shard and tensor index
  Communicator& shard() { return *shard_; }
  Communicator& tensor() { return *tensor_; }
  // Returns the group of replicate x shard: its ranks see different samples; ranks of one tensor group see the same.
  Communicator& data() { return *data_; }

 private:
  // Returns the world itself when the group has all its ranks.
  Communicator* Group(int size, int color, const char* name);

  MeshShape shape_;
  Communicator& world_;
  std::vector<std::unique_ptr<Communicator>> owned_;
  Communicator* replicate_;
  Communicator* shard_;
  Communicator* tensor_;
  Communicator* data_;
};

}  // namespace composer
