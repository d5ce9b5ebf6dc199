// The shard plan is what sharding a model costs, known before the first step: units, bytes, memory of a rank. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/options/fsdp_options.h"
#include "trainer/parallel/fsdp/memory_plan.h"

namespace composer {

// A PlannedShard has the sizes of one FlatShard.
struct PlannedShard {
  int64_t params = 0;         // elements, without padding
  int64_t largest_bytes = 0;  // of one whole parameter
  int64_t whole_bytes = 0;    // of the buffer of all ranks' shards, in param_dtype
  int64_t reduce_bytes = 0;   // of the reduce-scatter's input; 0: frozen
  int64_t shard_bytes = 0;    // this rank's values
  // These are bytes at construction: of parameters that had memory before, and the maximum for making one that had
  // none.
  int64_t whole_before_bytes = 0, making_bytes = 0;
};
struct PlannedUnit {
  std::string name;  // "" for the root
  std::vector<PlannedShard> shards;
};

struct ShardPlan {
  FsdpOptions options;
  MeshDegrees degrees;
  std::vector<PlannedUnit> units;  // the root first, then blocks in the order of their forward
  int64_t optimizer_bytes = 0;     // of this rank's state
  std::string whole_because;       // why the model was built with memory for its parameters; "" if it was not
  int64_t partial_sums = 0;        // `determinism: elastic`: further sums of gradients (GradientAccumulator), in shards
  PlannedStep step;
};

// Returns the memory of a rank in a step of any number of passes, without activations. The buffers come from a replay
// of the step with a MemoryPool.
PlannedMemory MemoryOf(const ShardPlan& plan);

// Returns the peak memory of a rank between building the model and having sharded it: what has memory when the model is
// built, minus what is already sharded, plus shards and gradients, plus one parameter as it is made.
int64_t ConstructionBytesOf(const ShardPlan& plan);

// Returns the theoretical bytes that a rank sends in a step of one pass: (N-1)/N of the bytes of each all-gather and
// reduce-scatter, 2 (R-1)/R of those of each all-reduce over R replicas; the step's tail is part of the root's.
int64_t WireBytesOf(const ShardPlan& plan);

// Returns several lines, for `verbose`. state_on_host means cpu_offload with a device other than the CPU.
std::string PlanText(const ShardPlan& plan, bool state_on_host = false);

}  // namespace composer
