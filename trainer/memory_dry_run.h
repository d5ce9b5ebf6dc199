// How much memory a rank takes at most in a training step, found before the run by doing smaller ones: a model, its shard of
// it, an optimizer and a TrainBatch as the run will have them, in a group of ranks of which only this one exists
// (parallel/rehearsal_communicator.h), two steps each with a few of the dataset's samples in a microbatch, two sizes of
// these; all allocations of tensors are recorded and grown to the real size (callbacks/allocation_growth.h). So everything
// that is allocated counts: what operations save, checkpointing, prefetch, the sums of elastic determinism, mixed precision
// and what kernels take for themselves. Real kernels, since LibTorch has shape-only ones for few: not for the backward passes
// of embeddings, norms and convolutions, nor for fused attention, in C++.
//
//   microbatch of 1 to 3 samples: as it is
//   of n more:                    with max(2, n/16) and max(3, n/8)
//
// It costs up to the time of a step or two, and no more memory than a step; all is freed afterwards, torch's generators are
// as before. It ends where it would take long (kLongestDryRun), since the other ranks wait. Not rehearsed: algorithms
// and callbacks, validation, saves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "trainer/options/trainer_options.h"
#include "trainer/parallel/fsdp/memory_plan.h"

namespace composer {

// After so long no further step begins. A rank that waits gives up after `dist_timeout`, which is 300 s.
inline constexpr absl::Duration kLongestDryRun = absl::Seconds(100);

// Sizes that a microbatch of `rows` samples is told from; equal: no need to.
struct DryRunRows {
  int64_t small, large;
};
DryRunRows RowsOfDryRun(int64_t rows);

// The peak of a rank of so many, and the one with activation checkpointing of all blocks (or without, where it is on). What
// keeps it from being found is its not_counted, a clause ("the model was given to the trainer already built"). options:
// valid; make_model and make_optimizer are called several times. Throws nothing. Threads: the calling one, on which no
// profiler may record.
PlannedStep PlanStep(const TrainerOptions& options, int world_size);

}  // namespace composer
