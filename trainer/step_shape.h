// These pure functions compute the size of a run's training step on a rank, from its options alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/collectives/mesh.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// Returns whether Fsdp holds the parameters. It does so on one rank, too, where it makes a difference: parameters
// gathered in another type, as on any number of ranks, or kept in host memory.
bool ShardsParameters(const TrainerOptions& options, const MeshShape& mesh);

struct StepShape {
  MeshShape mesh;
  bool sharded = false;
  int64_t leaves = 0;  // `determinism: elastic`: leaves of the global batch's tree (virtual_shards.h); 0: not elastic
  int64_t passes = 1;  // microbatches per step
  int64_t rows = 0;    // samples of the largest microbatch
  int64_t rank_rows = 0;  // samples of the rank's batch
  int data_ranks() const { return mesh.shard * mesh.replicate; }
};

// Returns the shape for the rank that has the most samples, in a run that starts with these options; a resumed run has
// the batch size of its checkpoint. With device_train_microbatch_size auto it is the whole batch, with which the run
// begins. Returns kInvalidArgument as PlanMesh does.
absl::StatusOr<StepShape> StepShapeOf(const TrainerOptions& options, int world_size);

}  // namespace composer
