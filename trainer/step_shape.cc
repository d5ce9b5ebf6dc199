// SPDX-License-Identifier: Apache-2.0
#include "trainer/step_shape.h"

#include <algorithm>

#include "base/status_macros.h"
#include "trainer/elastic/virtual_shards.h"

namespace composer {
namespace {

int64_t CeilOf(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool ShardsParameters(const TrainerOptions& options, const MeshShape& mesh) {
  if (mesh.shard > 1) return true;
  if (!options.fsdp || options.fsdp->strategy == ShardingStrategy::kNoShard) return false;
  return options.fsdp->param_dtype != at::kFloat || (options.fsdp->cpu_offload && !options.device.is_cpu());
}

absl::StatusOr<StepShape> StepShapeOf(const TrainerOptions& options, int world_size) {
  StepShape shape;
  RETURN_IF_ERROR(
      PlanMesh(options.fsdp ? &*options.fsdp : nullptr, options.tensor_parallel_degree, world_size, shape.mesh));
  shape.sharded = ShardsParameters(options, shape.mesh);
  const int64_t ranks = shape.data_ranks();
  const int64_t configured = options.train.global_train_batch_size;
  const int64_t global = configured > 0 ? configured : options.train.device_train_batch_size * ranks;
  const int64_t microbatch = std::max<int64_t>(0, options.device_train_microbatch_size);
  shape.rank_rows = std::max<int64_t>(1, CeilOf(global, ranks));
  if (options.virtual_shards == 0) {
    shape.rows = microbatch == 0 ? shape.rank_rows : std::min(microbatch, shape.rank_rows);
    shape.passes = CeilOf(shape.rank_rows, shape.rows);
    return shape;
  }
  const int shards = options.virtual_shards > 0 ? options.virtual_shards : DefaultVirtualShards(world_size);
  const MeshDegrees degrees{shape.mesh.shard, shape.mesh.replicate};
  RETURN_IF_ERROR(ValidateVirtualShards(shards, degrees));
  shape.leaves = NumLeaves(global, shards, microbatch);
  shape.passes = NumPasses(shape.leaves, degrees);
  shape.rows = std::max<int64_t>(1, CeilOf(global, shape.leaves));
  return shape;
}

}  // namespace composer
