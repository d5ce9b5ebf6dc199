// A training step by leaves (virtual_shards.h): what TrainBatch does between microbatches to make the step the same on
// any number of ranks and with any sharding strategy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/core/communicator.h"
#include "trainer/core/state.h"
#include "trainer/elastic/tree_accumulator.h"
#include "trainer/elastic/virtual_shards.h"
#include "trainer/step/loss_sums.h"

namespace composer {

class ElasticStep {
 public:
  // options: valid (ValidateVirtualShards), the ranks those of the communicator. params: those that get gradients, when
  // gradients are to be summed here; none when the GradientSync sums passes in the order of the tree (Fsdp). All must
  // outlive it. Throws c10::ValueError when the communicator's sums do not have that order.
  ElasticStep(State& state, const ElasticOptions& options, std::vector<at::Tensor> params, Communicator& communicator);

  // global_samples: of this step's batch, at least 1.
  void BeginStep(int64_t global_samples);
  int64_t num_passes() const { return NumPasses(leaves_, options_.place.degrees); }
  // This rank's microbatches, one a pass; some may be empty.
  std::vector<Microbatch> Plan() const { return PlanLeaves(options_.place, leaves_, global_samples_); }

  // The rows of a microbatch in memory of their own: where a slice begins in a batch depends on the rank, and kernels
  // may round differently at another alignment. What the dataset counted of the rank's batch is left out.
  static Batch Rows(const Batch& batch, const Microbatch& microbatch);

  // For each leaf that has samples. Random numbers of the leaf; gradients, losses and train metrics from zero; buffers as
  // at the beginning of the step.
  void BeginLeaf(int64_t leaf, LossSums& losses);
  // Takes what the leaf gave. Leaves without samples count as zeros, at their place in the tree.
  void EndLeaf(int64_t leaf, LossSums& losses);
  // After this rank's last leaf: gradients of the parameters = sum over its leaves, which the ranks then sum. Zeros for
  // a parameter that none of them used, as the sharding strategies have it.
  void FinishLeaves();

  // Collectives: losses of the global batch, and the train metrics' sums, in double by the same tree. The message's
  // parts become theirs. Buffers, on all ranks, are as the first leaf with samples left them: one more broadcast each in
  // a step that changed any.
  void SumOverRanks(StepMessage& agreed);
  double loss() const { return totals_[0]; }

 private:
  int64_t first_leaf() const { return FirstLeafWithSamples(global_samples_, leaves_); }
  // Zeros for the leaves before this pass that had no samples.
  void SkipTo(int64_t pass);
  int64_t BufferVersions() const;
  void SettleBuffers(bool changed);

  State& state_;
  ElasticOptions options_;
  std::vector<at::Tensor> params_;
  Communicator& communicator_;
  int64_t global_samples_ = 0, leaves_ = 0;
  TreeAccumulator sum_;
  int64_t next_pass_ = 0;  // whose term comes next
  // By leaf: loss, parts, sums of the metrics, has changed buffers. Each row is written by one rank.
  std::vector<double> numbers_;
  std::vector<double> totals_;
  std::vector<at::Tensor> buffers_, start_buffers_, first_buffers_;  // now, before the step, after first_leaf()
  int64_t versions_ = 0;
};

}  // namespace composer
