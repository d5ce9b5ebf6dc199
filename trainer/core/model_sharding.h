// ModelSharding gives access to a model whose parameters are spread over ranks to code that does not train: evaluation,
// checkpoints, algorithms.
//
// Outside of a pass each parameter tensor of the model *is* this rank's piece of it: a run of the flattened parameter,
// shape [1, …, 1, n] with as many dimensions as the whole (n may be 0), and so are its gradient and the optimizer's
// state for it. What works element by element (optimizers, clipping by value, moving averages) therefore works
// unchanged; what needs whole parameters asks here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/tensor_split.h"

namespace composer {

// All methods but Find, AbandonForward and the getters of numbers are collectives: every rank calls them, in the same
// order.
class ModelSharding {
 public:
  virtual ~ModelSharding() = default;

  // Encloses a forward pass without gradients: in between, parameters outside of the blocks are whole, and those of a
  // block while it runs. AbandonForward ends a pass that failed on this rank; it is not a collective.
  virtual void BeginForward() = 0;
  virtual void EndForward() = 0;
  virtual void AbandonForward() = 0;
  // Replaces such a pass on a rank that has no samples while others have.
  virtual void SkipForward() = 0;
  // Makes all parameters whole until EndForward. In between each rank may make any number of passes without calling
  // BeginForward or SkipForward, and blocks do not communicate.
  virtual void BeginWhole() = 0;
  // Returns whether passes within a training step hold the whole model anyway (SHARD_GRAD_OP), or nothing is gathered.
  virtual bool keeps_whole() const = 0;

  struct Piece {
    std::vector<int64_t> shape;  // of the whole parameter
    int64_t begin = 0, end = 0;  // of the flattened parameter; begin == end: nothing on this rank
    bool writes = true;          // false: another replica saves it
    // If not null, "the whole parameter" above is itself a part of a larger one (tensor parallelism).
    const TensorSplit* split = nullptr;
  };
  // Returns null if the tensor is not a sharded parameter.
  virtual const Piece* Find(const at::Tensor& param) const = 0;

  // Sums over the ranks that together hold one copy of the parameters, for norms of gradients or weights.
  virtual void SumOverShards(const at::Tensor& tensor) = 0;
  // Returns whether this rank's part of the parameter counts in such a sum; false when another of those ranks has the
  // same.
  virtual bool Counts(const at::Tensor& param) const { return true; }
  // Returns whether pieces are of parts of parameters (Piece::split): tensor parallelism.
  virtual bool splits_tensors() const { return false; }
  virtual int num_shards() const = 0;
  virtual int shard_index() const = 0;    // of this rank, 0 to num_shards() - 1
  virtual at::Device device() const = 0;  // of tensors to be summed

  // Returns all parameters, whole, on the CPU, by the model's names. Besides the result only one unit at a time is in
  // memory.
  virtual std::vector<std::pair<std::string, at::Tensor>> WholeParameters() = 0;
};

// Calls BeginForward and EndForward around a scope, or AbandonForward when an exception leaves the scope before End.
// With null it does nothing.
class WholeModelScope {
 public:
  explicit WholeModelScope(ModelSharding* sharding) : sharding_(sharding) {
    if (sharding_ != nullptr) sharding_->BeginForward();
  }
  ~WholeModelScope() {
    if (sharding_ != nullptr) sharding_->AbandonForward();
  }
  // Ends the pass.
  void End() {
    if (sharding_ != nullptr) sharding_->EndForward();
    sharding_ = nullptr;
  }
  WholeModelScope(const WholeModelScope&) = delete;
  WholeModelScope& operator=(const WholeModelScope&) = delete;

 private:
  ModelSharding* sharding_;
};

}  // namespace composer
