// How the ranks' gradients become one sum: the seam between a training step and its strategy. Implementations:
// GradientReducer (NO_SHARD, DDP) and Fsdp (the sharding strategies).
//
//   sync.BeginStep(passes);
//   for each microbatch: sync.BeginPass(); forward; [the last: write tail(), Arm(loss);] backward; sync.EndPass();
//   write tail() unless tail_sent(); sync.Finish();      // now .grad of the parameters are the sums, tail() too
//
// A rank with fewer microbatches than others, or none, or one that fails in the middle, just calls Finish: what is left
// of the step's collectives is done with zeros, so that no rank waits for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/types/span.h"
#include "trainer/core/tracer.h"

namespace composer {

// Threads: the training thread.
class GradientSync {
 public:
  virtual ~GradientSync() = default;
  // Where spans of its collectives go until the next call; null: nowhere.
  virtual void Trace(Tracer* tracer) {}
  // passes: the largest number of microbatches that a rank has in this step, the same on all ranks; at least 1.
  virtual void BeginStep(int64_t passes) {}
  virtual void BeginPass() {}
  virtual void EndPass() {}
  // Call before the step's last backward: from here on gradients that are complete may go out. loss: what backward
  // will start from; may be undefined.
  virtual void Arm(const at::Tensor& loss) {}
  // Call after it, or instead. Waits for the sums. Throws when a peer is lost.
  virtual void Finish() = 0;

  // Floats of this rank that are summed over all ranks with the gradients (CPU memory). Write before Arm; may be written
  // again until tail_sent(); read after Finish.
  virtual absl::Span<float> tail() = 0;
  virtual bool tail_sent() const = 0;
  // After Finish, the same on all ranks: no rank's gradients of the step held NaN or infinity. They are looked at before they
  // are summed, and what is found travels with the tail.
  virtual bool gradients_finite() const = 0;
  // Collectives of a step with one pass.
  virtual int64_t num_collectives_per_step() const = 0;
};

}  // namespace composer
