// Fully sharded data parallelism: parameters, gradients and optimizer state are spread over ranks; a unit's parameters are
// whole only while it runs. Units are the model's outermost Blocks (core/block.h); what lies in none is the root unit,
// whole from the beginning of a step's first forward pass to the end of its last backward pass.
//
//   pass, FULL_SHARD:  forward of each block: all-gather, run, free; backward, in reverse: all-gather, run,
//                      reduce-scatter, free
//   SHARD_GRAD_OP:     one all-gather a step, one reduce-scatter a pass
//   HYBRID:            as either, within a replica; after the last pass the shards' gradients are summed over replicas
//
// Every rank does the same collectives in the same order, which the ranks agree on in the first pass (pass_order.h): a
// rank without samples or with fewer microbatches goes through the motions with zeros. Gathers start ahead of their use and
// reduce-scatters are waited for one unit later (prefetch: fsdp_options.h), so that they overlap with compute.
// The step's tail (GradientSync) is part of every rank's chunk of the root's last reduce-scatter; behind it travel a digest of
// the order and whether this rank's gradients were finite.
// Source of the method: performance.md 1; torch/distributed/fsdp (2.11); Rajbhandari et al. 2020, arXiv:1910.02054.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/core/block.h"
#include "trainer/core/communicator.h"
#include "trainer/core/gradient_sync.h"
#include "trainer/core/model_sharding.h"
#include "trainer/options/fsdp_options.h"
#include "trainer/parallel/fsdp/flat_shard.h"
#include "trainer/parallel/fsdp/pass_order.h"
#include "trainer/parallel/fsdp/shard_plan.h"
#include "trainer/step/finite_check.h"

namespace composer {

// Threads: the training thread, and autograd's inside backward.
class Fsdp final : public GradientSync, public ModelSharding {
 public:
  struct Ranks {
    Communicator* world;                // to share rank 0's weights
    Communicator* shard;                // one rank: for the dtypes, or for what is kept in host memory
    Communicator* replicate = nullptr;  // null: one replica
  };
  // Shards the model in place. Must come before the optimizer is made, which then has state for the pieces only. Other
  // wrappers of blocks (activation checkpointing) must be there already. All must outlive this object; the model cannot
  // be run after it. first: of the model's parameters without values, which are made as they are sharded; null: all have
  // theirs. Throws c10::ValueError for parameters that are not floating point or not of one dtype in a unit.
  Fsdp(torch::nn::Module& model, const Ranks& ranks, const FsdpOptions& options, int tail_length,
       const FirstValues* first = nullptr);
  ~Fsdp() override;
  Fsdp(const Fsdp&) = delete;
  Fsdp& operator=(const Fsdp&) = delete;

  // `determinism: elastic`: the sum over a step's passes has the order of TreeSum, too. Before the first step.
  void SumPassesInTreeOrder();

  // GradientSync.
  void Trace(Tracer* tracer) override;
  void BeginStep(int64_t passes) override;
  void BeginPass() override;
  void EndPass() override;
  void Finish() override;
  absl::Span<float> tail() override { return absl::MakeSpan(tail_).first(tail_.size() - kOwnTail); }
  bool tail_sent() const override { return false; }  // until Finish
  bool gradients_finite() const override { return finite_; }
  int64_t num_collectives_per_step() const override;

  // ModelSharding.
  void BeginForward() override;
  void EndForward() override;
  void AbandonForward() override;
  void SkipForward() override;
  void BeginWhole() override;
  bool keeps_whole() const override { return options_.strategy == ShardingStrategy::kShardGradOp; }
  const Piece* Find(const at::Tensor& param) const override;
  void SumOverShards(const at::Tensor& tensor) override { ranks_.shard->AllReduceSum(tensor); }
  int num_shards() const override { return ranks_.shard->world_size(); }
  int shard_index() const override { return ranks_.shard->rank(); }
  at::Device device() const override { return ranks_.shard->device(); }
  std::vector<std::pair<std::string, at::Tensor>> WholeParameters() override;

  // optimizer_bytes: of the optimizer's state on this rank.
  ShardPlan Plan(int64_t optimizer_bytes) const;
  // Of buffers for whole parameters and reduce-scatters, at most so far.
  int64_t pool_bytes() const { return pool_.bytes(); }

 private:
  class Wrapper;
  struct Hook;
  struct Unit {
    std::string name;
    Block* block = nullptr;  // null: the root
    std::vector<std::unique_ptr<FlatShard>> shards;
    bool all_trainable = true;
    // In this pass:
    int calls_pending = 0;  // calls whose backward has not begun
    bool forward_done = false, backward_begun = false, reduced = false;
  };
  // At the end of the tail: 1; the digest of the order in two parts of 12 bits, so that sums over ranks are exact in
  // float32; not 0 when a gradient of this rank is not finite.
  static constexpr size_t kOwnTail = 4;
  using NamedParams = std::vector<std::pair<std::string, at::Tensor>>;

  void AddShards(Unit& unit, const NamedParams& params, const InitialWeights& weights);
  void InstallHooks();

  // What the model's run on this rank asks for.
  void ForwardBegin(size_t unit);
  void ForwardEnd(size_t unit, const at::Tensor& output);
  void BackwardBegin(size_t unit);
  void OnGradient(size_t unit, size_t shard, size_t param);
  // Reduces what has begun and still waits for gradients that no rank will have.
  void ReduceBegun();
  // Agreed with the other ranks.
  void Make(PassOrder::Move move);
  void Do(PassOrder::Move move);
  void Forward(size_t unit);
  void LeaveForward(size_t unit);
  void Backward(size_t unit);
  void Reduce(size_t unit);
  // This rank's own moves of the pass are over: makes the others'.
  void Follow(bool whole);
  // What no rank has done in this pass.
  void DoRest();
  void EndPass(bool whole);
  // Throws StatusError kInternal unless the sums of the tail say that all ranks have made the same moves.
  void CheckSameOrder();
  // Starts the gathers of up to `limit` units that follow in order_ (step 1) or precede (-1).
  void Prefetch(size_t unit, int step, int limit);
  void FinishReduceInFlight();
  void StartReduce(Unit& unit, absl::Span<float> tail);

  bool is_last_pass() const { return pass_ + 1 == passes_; }
  void Unshard(Unit& unit);
  // Without overlap: until the device has done all that it was given.
  void Serialize() const;
  static void Reshard(Unit& unit);

  Ranks ranks_;
  FsdpOptions options_;
  MemoryPool pool_;
  std::vector<Unit> units_;                         // the root first, then blocks in the order of the model
  std::vector<std::shared_ptr<Wrapper>> wrappers_;  // of units_[1…]
  absl::flat_hash_map<const void*, Piece> pieces_;  // by the parameter's TensorImpl
  NamedParams named_;                               // the model's names, also those that share a tensor
  std::vector<float> tail_;                         // the caller's and kOwnTail
  uint16_t last_unit_ = 0;                          // of the shards made so far

  PassOrder pass_order_;
  std::optional<PassOrder::Move> open_;  // agreed and not done: what failed in it is tried again at the pass's end
  bool made_backward_ = false;           // by this rank's own run of the model, in this pass
  bool in_forward_ = false;              // between BeginForward and EndForward
  std::vector<size_t> order_;            // of the blocks' units in the first training pass; before it that of the model
  std::vector<size_t> first_forwards_;   // of the pass under way
  std::vector<size_t> place_;            // of each unit in order_
  FiniteCheck check_;                    // of this step's gradients
  bool finite_ = true;
  int64_t passes_ = 0, pass_ = -1;
  bool in_pass_ = false, in_step_ = false;
  bool is_whole_ = false;      // between BeginWhole and EndForward
  Unit* in_flight_ = nullptr;  // its reduce-scatters
  bool in_flight_is_first_ = true, in_flight_is_last_ = true;
};

}  // namespace composer
