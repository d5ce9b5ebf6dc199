// How a model is sharded: the keys of Composer's fsdp_config that have a meaning here.
// Source: mosaicml composer/utils/parallelism.py (FSDPConfig); torch/distributed/fsdp/api.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

enum class ShardingStrategy {
  kNoShard,      // DDP: every rank has everything
  kShardGradOp,  // ZeRO-2: gathered once a step, gradients and optimizer sharded
  kFullShard,    // ZeRO-3: gathered for forward and again for backward
};
// What is gathered ahead in backward, and when: before a unit's gradients are computed, after, or nothing.
enum class BackwardPrefetch { kNone, kPre, kPost };

struct FsdpOptions {
  ShardingStrategy strategy = ShardingStrategy::kFullShard;
  // Mesh: shard x replicate ranks. replicate > 1 is HYBRID_SHARD: each replica is sharded, gradients are summed over
  // replicas. 0: all ranks that the other leaves.
  int data_parallel_shard_degree = 0;
  int data_parallel_replicate_degree = 1;
  bool cpu_offload = false;  // shards, their gradients and the optimizer in host memory
  // Parameters while they are whole; gradients while they are summed over ranks (those outside of blocks: float32). The
  // shard itself, its gradient and the optimizer keep the model's dtype.
  at::ScalarType param_dtype = at::kFloat;
  at::ScalarType reduce_dtype = at::kFloat;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPost;
  int backward_prefetch_limit = 1;  // blocks
  bool forward_prefetch = false;
  int forward_prefetch_limit = 1;
  bool limit_all_gathers = true;  // false: prefetching has no limits; all of a pass's gathers may be under way at once
  // false: nothing is gathered ahead, every collective is waited for (on a GPU: with the device) where it starts. Slower,
  // the same bits: for telling a fault of the overlap from one of the model.
  bool overlap_communication = true;
  bool sync_module_states = true;       // rank 0's first weights, not each rank's own
  bool auto_wrap = true;                // false: only blocks that the model itself marks are units (Block::SetFsdpWrap)
  std::vector<std::string> wrap_types;  // types of blocks ("GptBlock") that are units; empty: all
  int64_t min_num_params = 0;           // a block with fewer parameters is not a unit of its own
  bool verbose = false;                 // logs the plan
};

// The degrees as numbers for so many ranks. kInvalidArgument naming the field.
struct MeshDegrees {
  int shard = 1, replicate = 1;
};
absl::Status ResolveDegrees(const FsdpOptions& options, int world_size, MeshDegrees& degrees);

}  // namespace composer
