// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/mesh.h"

#include <c10/util/Exception.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/parallel/local_communicator.h"

namespace composer {

absl::Status PlanMesh(const FsdpOptions* fsdp, int tensor_parallel_degree, int world_size, MeshShape& shape) {
  if (tensor_parallel_degree < 1 || world_size % tensor_parallel_degree != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor_parallel_degree: ", tensor_parallel_degree,
                                                   " does not divide the number of ranks, ", world_size));
  }
  const int data_ranks = world_size / tensor_parallel_degree;
  MeshDegrees degrees{.shard = 1, .replicate = data_ranks};
  if (fsdp != nullptr) RETURN_IF_ERROR(Annotate(ResolveDegrees(*fsdp, data_ranks, degrees), "fsdp"));
  if (fsdp != nullptr && fsdp->strategy == ShardingStrategy::kNoShard) degrees = {1, data_ranks};
  shape = {degrees.replicate, degrees.shard, tensor_parallel_degree};
  return absl::OkStatus();
}

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
