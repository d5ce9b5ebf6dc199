// Fsdp implements fully sharded data parallelism: parameters, gradients and optimizer state are spread over ranks; a
// unit's parameters are whole only while it runs. Units are the model's outermost Blocks (core/block.h), or layers that
// are chosen; everything outside of them is the root unit, which is whole from the beginning of a step's first forward
// pass to the end of its last backward pass.
//
//   pass, FULL_SHARD:  forward of each block: all-gather, run, free; backward, in reverse: all-gather, run,
//                      reduce-scatter, free
//   SHARD_GRAD_OP:     one all-gather per step, one reduce-scatter per pass
//   HYBRID:            as either, within a replica; after the last pass the shards' gradients are summed over replicas
//
// Every rank runs the same collectives in the same order, on which the ranks agree in the first pass (pass_order.h); a
// rank without samples or with fewer microbatches takes part with zeros. Gathers start ahead of their use and
// reduce-scatters are waited for one unit later (prefetch: fsdp_options.h), so that they overlap with compute. The
// step's tail (GradientSync) is part of every rank's chunk of the root's last reduce-scatter; it is followed by a
// digest of the order and by whether this rank's gradients were finite. Source of the method: performance.md 1;
// torch/distributed/fsdp (2.11); Rajbhandari et al. 2020, arXiv:1910.02054.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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

// Threads: the training thread, and autograd's threads inside backward.
class Fsdp final : public GradientSync, public ModelSharding {
 public:
  struct Ranks {
    Communicator* world;                // for sharing rank 0's weights
    Communicator* shard;                // of one rank when only the dtypes or host memory matter
    Communicator* replicate = nullptr;  // null: one replica
  };
  // Shards the model in place. It must come before the optimizer is made, which then has state for the pieces only, and
  // after other wrappers of blocks (activation checkpointing). All arguments must outlive this object; the model cannot
  // be run after it is destroyed. `first` makes the values of parameters without values as they are sharded; null if
  // all have theirs. Throws c10::ValueError for parameters that are not floating point or not of one dtype in a unit.
  Fsdp(torch::nn::Module& model, const Ranks& ranks, const FsdpOptions& options, int tail_length,
       const FirstValues* first = nullptr);
  ~Fsdp() override;
  Fsdp(const Fsdp&) = delete;
  Fsdp& operator=(const Fsdp&) = delete;

  // Implements `determinism: elastic`: sums over a step's passes have the order of TreeSum, too. Must be called before
  // the first step.
  void SumPassesInTreeOrder();

  // These implement GradientSync.
  void Trace(Tracer* tracer) override;
  void BeginStep(int64_t passes) override;
  void BeginPass() override;
  void EndPass() override;
  void Finish() override;
  bool can_queue() const override { return device().is_cuda() && !options_.cpu_offload; }
  // Ranks that replay a graph send the digest of its step, so from here on each step has a digest of its own.
  void PrepareToQueue() override { queues_ = true; }
  QueuedSums QueueFinish() override;
  void TakeQueued(absl::Span<const double> numbers) override;
  std::vector<float> sent() const override { return {tail_.begin(), tail_.end()}; }
  void SendAgain(absl::Span<const float> sent) override;
  absl::Span<float> tail() override { return tail_.first(tail_.size() - kOwnTail); }
  void SetDeviceTail(DeviceTail tail) override { device_tail_ = std::move(tail); }
  bool tail_sent() const override { return false; }  // sent only in Finish
  bool gradients_finite() const override { return finite_; }
  int64_t num_collectives_per_step() const override;

  // These implement ModelSharding.
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

  // `optimizer_bytes` is the size of the optimizer's state on this rank.
  ShardPlan Plan(int64_t optimizer_bytes) const;
  // Returns the maximum bytes so far of buffers for whole parameters and reduce-scatters.
  int64_t pool_bytes() const { return pool_.bytes(); }

 private:
  class Wrapper;
  struct Hook;
  struct Unit {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;  // null: the root
    std::vector<std::unique_ptr<FlatShard>> shards;
    bool all_trainable = true;
    // The state in this pass follows.
    int calls_pending = 0;  // the number of calls whose backward has not begun
    bool forward_done = false, backward_begun = false, reduced = false;
  };
  // The tail ends with these floats: 1; the digest of the order in two parts of 12 bits, so that sums over ranks are
  // exact in float32; a float that is not 0 when a gradient of this rank is not finite.
  static constexpr size_t kOwnTail = 4;
  using NamedParams = std::vector<std::pair<std::string, at::Tensor>>;

  void FindKeptInFp32(const torch::nn::Module& model);
  void AddShards(Unit& unit, const NamedParams& params, const InitialWeights& weights);
  void InstallHooks();

  // The model's run on this rank calls these.
  void ForwardBegin(size_t unit);
  void ForwardEnd(size_t unit, const at::Tensor& output);
  void BackwardBegin(size_t unit);
  void OnGradient(size_t unit, size_t shard, size_t param);
  // Reduces units whose backward has begun and that still wait for gradients which no rank will have.
  void ReduceBegun();
  // These moves are agreed on with the other ranks.
  void Make(PassOrder::Move move);
  void Do(PassOrder::Move move);
  void Forward(size_t unit);
  void LeaveForward(size_t unit);
  void Backward(size_t unit);
  void Reduce(size_t unit);
  // Makes the other ranks' moves once this rank's own moves of the pass are over.
  void Follow(bool whole);
  // Makes the moves that no rank has made in this pass.
  void DoRest();
  void EndPass(bool whole);
  // Throws StatusError kInternal unless the tail's sums show that all ranks have made the same moves.
  void CheckSameOrder();
  // Reads the tail's sums.
  void TakeTail();
  // Starts the gathers of up to `limit` units that follow in order_ (step 1) or precede (step -1).
  void Prefetch(size_t unit, int step, int limit);
  void FinishReduceInFlight();
  void StartReduce(Unit& unit, const at::Tensor& tail);

  bool is_last_pass() const { return pass_ + 1 == passes_; }
  void Unshard(Unit& unit);
  // Without overlap, waits until the device has finished all its work.
  void Serialize() const;
  static void Reshard(Unit& unit);

  Ranks ranks_;
  FsdpOptions options_;
  MemoryPool pool_;
  std::vector<Unit> units_;                         // the root first, then blocks in the order of the model
  std::vector<std::shared_ptr<Wrapper>> wrappers_;  // for units_[1…]
  absl::flat_hash_map<const void*, Piece> pieces_;  // by the parameter's TensorImpl
  NamedParams named_;                               // under all of the model's names, also several for one tensor
  absl::flat_hash_set<const void*> keeps_fp32_;     // TensorImpls
  at::Tensor host_tail_;  // the caller's tail and kOwnTail; pinned on a GPU, so that a copy does not wait
  absl::Span<float> tail_;
  std::array<float, 2> digest_{};  // as this rank has sent it
  bool queues_ = false;
  DeviceTail device_tail_;
  uint16_t last_unit_ = 0;  // the number of the last shard made so far

  PassOrder pass_order_;
  std::optional<PassOrder::Move> open_;  // agreed on but not done: a move that failed is tried again at the pass's end
  bool made_backward_ = false;           // whether this rank's own run of the model made a backward in this pass
  bool in_forward_ = false;              // between BeginForward and EndForward
  // The blocks' units in the order of the first training pass; before it, in the order of the model.
  std::vector<size_t> order_;
  std::vector<size_t> first_forwards_;  // the current pass's
  std::vector<size_t> place_;           // the index of each unit in order_
  FiniteCheck check_;                   // of this step's gradients
  bool finite_ = true;
  int64_t passes_ = 0, pass_ = -1;
  bool in_pass_ = false, in_step_ = false;
  bool is_whole_ = false;      // between BeginWhole and EndForward
  Unit* in_flight_ = nullptr;  // the unit whose reduce-scatters are in flight
  bool in_flight_is_first_ = true, in_flight_is_last_ = true;
};

}  // namespace composer
