// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/mesh_shape.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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

}  // namespace composer
