// GradientSync turns the ranks' gradients into one sum: the seam between a training step and its strategy.
// Implementations: LocalSync (one rank), GradientReducer (NO_SHARD, DDP), Fsdp (the sharding strategies) and
// TensorParallelSync, around one of these.
//
//   sync.BeginStep(passes);
//   for each microbatch: sync.BeginPass(); forward; [the last: write tail(), Arm(loss);] backward; sync.EndPass();
//   write tail() unless tail_sent(); sync.Finish();      // now .grad of the parameters are the sums, tail() too
//
// A rank with fewer microbatches than others, or none, or one that fails in the middle, just calls Finish: the rest of
// the step's collectives run with zeros, so that no rank waits for it. If keeps_local(), a step may end without Arm and
// Finish: the gradients are then this rank's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "trainer/core/tracer.h"

namespace composer {

// Floats of a tail that are known on a GPU only: tail[first], tail[first + 1], …
struct DeviceTail {
  int64_t first = 0;
  at::Tensor numbers;  // float32; undefined: none
  void CopyTo(const at::Tensor& tail) const {
    if (numbers.defined()) tail.narrow(0, first, numbers.numel()).copy_(numbers.view({-1}), /*non_blocking=*/true);
  }
};

// Threads: the training thread.
class GradientSync {
 public:
  virtual ~GradientSync() = default;
  // Sets where spans of its collectives go until the next call. Null records none.
  virtual void Trace(Tracer* tracer) {}
  // `passes` is the largest number of microbatches of any rank in this step, the same on all ranks; at least 1.
  virtual void BeginStep(int64_t passes) {}
  virtual void BeginPass() {}
  virtual void EndPass() {}
  // Call before the step's last backward: from here on, complete gradients may be sent. `loss` is the tensor from which
  // backward will start; it may be undefined.
  virtual void Arm(const at::Tensor& loss) {}
  // Call after the last backward, or instead of it. Waits for the sums. Throws when a peer is lost.
  virtual void Finish() = 0;

  // Returns this rank's floats that are summed over all ranks with the gradients (CPU memory). Write them before Arm;
  // they may be rewritten until tail_sent(). Read them after Finish.
  virtual absl::Span<float> tail() = 0;
  // Has floats of the next tail that is sent taken from a GPU in place of tail(), so that the host need not wait for
  // them. Call it when tail() may be written. Not for a sync that is_alone().
  virtual void SetDeviceTail(DeviceTail /*tail*/) {}
  virtual bool tail_sent() const = 0;
  // Returns, after Finish and equal on all ranks, whether no rank's gradients of the step held NaN or infinity.
  // Gradients are checked before they are summed; the verdict travels with the tail.
  virtual bool gradients_finite() const = 0;
  // Finish in parts, for steps whose update is queued before the host knows the sums (loop/train_batch_graph.cc). Only
  // with can_queue(), and after PrepareToQueue, which must come before the first such step.
  struct QueuedSums {
    at::Tensor numbers;   // float32 on the device, summed over ranks: tail() and more
    int64_t verdict = 0;  // numbers[verdict] is not 0 if some rank's gradients are not finite
  };
  virtual bool can_queue() const { return false; }
  virtual void PrepareToQueue() {}
  // Finish without a wait of the host.
  virtual QueuedSums QueueFinish() { return {}; }
  // Takes what `numbers` held; then all is as after Finish.
  virtual void TakeQueued(absl::Span<const double> /*numbers*/) {}
  // Returns, after QueueFinish and before TakeQueued, what this rank has sent with the tail; a graph of this step sends
  // what the last call of SendAgain has put in its place, and tail() on top.
  virtual std::vector<float> sent() const { return {}; }
  virtual void SendAgain(absl::Span<const float> /*sent*/) {}

  // Returns the number of collectives of a step with one pass.
  virtual int64_t num_collectives_per_step() const = 0;
  // True if gradients stay on the rank until they are armed and finished.
  virtual bool keeps_local() const { return false; }
  // True if there is nobody to sum with: the tail is what this rank wrote.
  virtual bool is_alone() const { return false; }
};

}  // namespace composer
