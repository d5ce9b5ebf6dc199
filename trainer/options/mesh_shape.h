// A MeshShape is the number of ranks on each axis of a run's mesh: replicate x shard x tensor. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "trainer/options/fsdp_options.h"

namespace composer {

struct MeshShape {
  int replicate = 1;  // groups that hold the same shards (HYBRID_SHARD)
  int shard = 1;      // ranks that share the parameters
  int tensor = 1;     // ranks that share each matrix product
};

// Computes the mesh of a run of world_size ranks. A null fsdp means data parallel without sharding. Returns
// kInvalidArgument naming the degree that does not divide the ranks.
absl::Status PlanMesh(const FsdpOptions* fsdp, int tensor_parallel_degree, int world_size, MeshShape& shape);

}  // namespace composer
