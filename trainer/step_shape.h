// The size of a run's training step on a rank, from its options alone. Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/collectives/mesh.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// Does Fsdp hold the parameters? On one rank, too, where it changes something: parameters gathered in another type, as any
// number of ranks has them, or kept in host memory.
bool ShardsParameters(const TrainerOptions& options, const MeshShape& mesh);

struct StepShape {
  MeshShape mesh;
  bool sharded = false;
  int64_t leaves = 0;     // `determinism: elastic`: of the global batch's tree (virtual_shards.h); 0: not elastic
  int64_t passes = 1;     // microbatches of a step
  int64_t rows = 0;       // samples of the largest
  int64_t rank_rows = 0;  // samples of the rank's batch
  int data_ranks() const { return mesh.shard * mesh.replicate; }
};

// Of the rank that has most samples, for a run that starts with these options; one that goes on has the batch size of its
// checkpoint. device_train_microbatch_size auto: the whole batch, with which it begins. kInvalidArgument as PlanMesh's.
absl::StatusOr<StepShape> StepShapeOf(const TrainerOptions& options, int world_size);

}  // namespace composer
