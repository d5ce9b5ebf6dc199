// These options say how a model is sharded: the keys of Composer's fsdp_config that apply here. Source: mosaicml
// composer/utils/parallelism.py (FSDPConfig); torch/distributed/fsdp/api.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/layers/layer_selector.h"

namespace composer {

enum class ShardingStrategy {
  kNoShard,      // DDP: every rank holds everything
  kShardGradOp,  // ZeRO-2: gathered once per step; gradients and optimizer are sharded
  kFullShard,    // ZeRO-3: gathered for forward and again for backward
};
// Decides whether the next unit is gathered ahead in backward, before or after a unit's gradients are computed.
enum class BackwardPrefetch { kNone, kPre, kPost };

struct FsdpOptions {
  ShardingStrategy strategy = ShardingStrategy::kFullShard;
  // The mesh has shard x replicate ranks. replicate > 1 is HYBRID_SHARD: each replica is sharded, and gradients are
  // summed over replicas. 0 takes all ranks that the other degree leaves.
  int data_parallel_shard_degree = 0;
  int data_parallel_replicate_degree = 1;
  bool cpu_offload = false;  // shards, their gradients and the optimizer in host memory
  // The dtypes of parameters while they are whole, and of gradients while they are summed over ranks (float32 for those
  // outside of blocks). The shard itself, its gradient and the optimizer keep the model's dtype.
  at::ScalarType param_dtype = at::kFloat;
  at::ScalarType reduce_dtype = at::kFloat;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPost;
  int backward_prefetch_limit = 1;  // blocks
  bool forward_prefetch = false;
  int forward_prefetch_limit = 1;
  bool limit_all_gathers = true;  // false: no limits on prefetching; all of a pass's gathers may be in flight at once
  // If false, nothing is prefetched and every collective is waited for where it starts (on a GPU: with the device).
  // Slower with the same bits, to tell a fault of the overlap from one of the model.
  bool overlap_communication = true;
  bool sync_module_states = true;  // use rank 0's initial weights, not each rank's own
  bool auto_wrap = true;           // false: only blocks that the model itself marks are units (Block::SetFsdpWrap)
  LayerChoice wrap;                // blocks and layers that are units; empty: all blocks
  int64_t min_num_params = 0;      // a block with fewer parameters is not a unit of its own
  bool verbose = false;            // log the plan
  // Layers whose parameters are float32 also while they are whole, whatever param_dtype is.
  LayerChoice keep_fp32;
};

// MeshDegrees are the resolved degrees. ResolveDegrees computes them for world_size ranks, or returns kInvalidArgument
// naming the field.
struct MeshDegrees {
  int shard = 1, replicate = 1;
};
absl::Status ResolveDegrees(const FsdpOptions& options, int world_size, MeshDegrees& degrees);

}  // namespace composer
