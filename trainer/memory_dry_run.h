// The memory dry run finds the maximum memory of a rank in a training step before the run, by making smaller steps. It
// builds a model, its shard, an optimizer and a TrainBatch as the run will have them, in a group of ranks of which only
// this one exists (collectives/dry_run_communicator.h), and makes two steps each with a few of the dataset's samples
// per microbatch, for two such sizes. It records all allocations of tensors and scales them to the real size
// (memory/allocation_growth.h). Thus everything allocated counts: what operations save, checkpointing, prefetch, the
// sums of elastic determinism, mixed precision and what kernels take for themselves. The kernels are real ones, since
// LibTorch has few shape-only ones: in C++ there are none for the backward passes of embeddings, norms and
// convolutions, nor for fused attention.
//
//   microbatch of 1 to 3 samples: as it is
//   of n more:                    with max(2, n/16) and max(3, n/8)
//
// It costs up to the time of a step or two, and no more memory than a step; everything is freed afterwards and torch's
// generators are restored. It stops when it would take long (kLongestDryRun), since the other ranks wait. Algorithms
// change the model as in the run (LoRA and all surgery); what they do during steps is left out, as are callbacks,
// validation, and saves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "trainer/options/trainer_options.h"
#include "trainer/parallel/fsdp/memory_plan.h"

namespace composer {

// No further step begins after this time. A waiting rank gives up after `dist_timeout`, which is 300 s.
inline constexpr absl::Duration kLongestDryRun = absl::Seconds(100);

// A microbatch of `rows` samples is extrapolated from these sizes; equal if there is no need to.
struct DryRunRows {
  int64_t small, large;
};
DryRunRows RowsOfDryRun(int64_t rows);

// Returns the peak of a rank among world_size ranks, and the peak with activation checkpointing of all blocks (or
// without, if it is on). options.algorithms change each model that make_model makes; a trainer, which has put them into
// make_model, has none left there. If the peak cannot be found, not_counted gives the reason, a clause ("the model was
// given to the trainer already built"). Requires valid options; make_model and make_optimizer are called several times.
// Throws nothing. Threads: runs on the calling thread, on which no profiler may record.
PlannedStep PlanStep(const TrainerOptions& options, int world_size);

}  // namespace composer
