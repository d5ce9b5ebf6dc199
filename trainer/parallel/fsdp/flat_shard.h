// FlatShard holds the parameters of one dtype of one unit, sharded: this rank's shard of them, the buffer in which all
// of them are whole temporarily, and their gradients on the way from autograd to this rank's shard.
//
//   sharded:    parameter = its piece of the shard (core/model_sharding.h); the whole buffer has no memory
//   unsharded:  parameter = its view of the whole buffer, of its own shape, in param_dtype
//
// The whole buffer's storage object never changes, nor do the parameter tensors, so what autograd saved in forward is
// valid in backward, after another all-gather. The gather writes through a tensor of its own, so version counters of
// parameters do not move. Each gradient is copied into the reduce-scatter buffer as it arrives (and freed); the
// reduce-scatter's result is added to the shard's gradient in the dtype of the parameters. Source of the method:
// torch/distributed/fsdp/_flat_param.py (2.11); Zhao et al. 2023, arXiv:2304.11277.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "trainer/core/communicator.h"
#include "trainer/core/gradient_sync.h"
#include "trainer/parallel/fsdp/flat_layout.h"
#include "trainer/parallel/fsdp/gradient_accumulator.h"
#include "trainer/parallel/fsdp/initial_weights.h"
#include "trainer/parallel/fsdp/memory_pool.h"
#include "trainer/step/finite_check.h"

namespace composer {

// Threads: one at a time (the training thread, autograd's inside backward).
class FlatShard {
 public:
  struct Options {
    Communicator* shard = nullptr;      // the ranks that share the parts
    Communicator* replicate = nullptr;  // the ranks that hold the same part; null: none
    at::ScalarType param_dtype = at::kFloat;
    at::ScalarType reduce_dtype = at::kFloat;
    bool cpu_offload = false;  // shard and its gradient in host memory
    bool overlap = true;       // false: a sum over replicas is waited for where it starts
    uint16_t unit = 0;         // identifies its collectives (Communicator::set_unit)
    int64_t tail_length = 0;   // the number of floats that are summed over all ranks with the gradients
    MemoryPool* pool = nullptr;
    const InitialWeights* weights = nullptr;  // of the parameters; used only by the constructor
  };
  // params are of one dtype, all with requires_grad or none. They get their initial values and are sharded from now on,
  // with one whole parameter at a time.
  FlatShard(const std::vector<std::pair<std::string, at::Tensor>>& params, bool trainable, const Options& options);
  FlatShard(const FlatShard&) = delete;
  FlatShard& operator=(const FlatShard&) = delete;

  // Starts the all-gather, unless it is in flight or done.
  void StartUnshard();
  // Makes the parameters whole. Starts the all-gather if needed.
  void Unshard();
  // Turns the parameters into pieces again and frees the memory. Does nothing when they are pieces already.
  void Reshard();

  // Takes the gradient of parameter `index`, which must be complete in its .grad.
  void TakeGradient(size_t index);
  bool HasAllGradients() const { return num_taken_ == params_.size(); }
  // Starts the reduce-scatter; missing gradients count as zeros. `check` examines this rank's gradients. `tail` has
  // tail_length floats in host memory, or is undefined (zeros); some may be in device_tail; the verdict of check so far
  // goes into the last of them.
  void StartReduce(FiniteCheck& check, const at::Tensor& tail = {}, const DeviceTail& device_tail = {});
  // Waits for the reduce-scatter and adds the result to the shard's gradient; `first` replaces the gradient instead,
  // `last` also starts the sum over replicas.
  void FinishReduce(bool first, bool last);
  // Must be called after the last pass: .grad of the sharded parameters becomes their piece of the sum, undefined for
  // those that are frozen now.
  void ExposeGradients();
  // Returns the summed tail, [tail_length], after ExposeGradients.
  at::Tensor tail_sums() const { return gradient_.narrow(0, layout_.shard_numel, options_.tail_length); }

  // From now on passes are summed in the order of TreeSum (gradient_accumulator.h). Must not be called within a step.
  void SumPassesInTreeOrder();

  // Returns new whole tensors on the CPU, in the shard's dtype. A collective; the state does not change.
  std::vector<at::Tensor> GatherWhole();

  const FlatLayout& layout() const { return layout_; }
  bool trainable() const { return trainable_; }
  const std::vector<at::Tensor>& params() const { return params_; }
  // Returns this rank's values: [shard_numel].
  const at::Tensor& shard() const { return shard_; }
  int64_t whole_bytes() const { return whole_bytes_; }
  int64_t reduce_bytes() const { return reduce_bytes_; }
  int64_t largest_param_bytes() const;  // whole, in param_dtype
  // Bytes of construction: of parameters that had memory before; the maximum for making one that had none.
  int64_t whole_before_bytes() const { return whole_before_bytes_; }
  int64_t making_bytes() const { return making_bytes_; }

 private:
  // A Segment is a part of a parameter's gradient and its place in the reduce-scatter buffer.
  struct Segment {
    int64_t begin;
    at::Tensor place;  // [n]
  };
  void BuildParams(const std::vector<std::pair<std::string, at::Tensor>>& params, const at::TensorOptions& original);
  void TakeFirstValues(const at::Tensor& param, const FlatPiece& piece, const at::Tensor& place);
  void BuildGradients(const at::TensorOptions& original);
  // Writes zeros where no gradient came.
  void FillRest();

  Options options_;
  bool trainable_;
  FlatLayout layout_;
  std::vector<at::Tensor> params_;
  at::Tensor shard_, whole_, own_;          // own_: this rank's part of whole_
  std::vector<at::Tensor> pieces_, views_;  // by parameter; views of shard_ and of whole_
  int64_t whole_bytes_ = 0, reduce_bytes_ = 0, whole_before_bytes_ = 0, making_bytes_ = 0;
  enum class WholeState { kNone, kGathering, kWhole };
  WholeState state_ = WholeState::kNone;
  std::unique_ptr<PendingCollective> gather_;

  at::Tensor gradient_;                         // [shard_numel + tail]
  GradientAccumulator passes_;                  // adds into gradient_
  std::vector<at::Tensor> gradient_pieces_;     // by parameter
  at::Tensor reduce_, own_reduce_;              // [ranks x (shard_numel + tail)], this rank's part
  std::vector<at::Tensor> gaps_, tails_;        // parts of reduce_
  std::vector<std::vector<Segment>> segments_;  // by parameter
  std::vector<char> taken_;
  size_t num_taken_ = 0;
  bool reduce_has_memory_ = false;
  std::unique_ptr<PendingCollective> reducing_, replicating_;
};

}  // namespace composer
