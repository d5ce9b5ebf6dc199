// ElasticStep makes a training step by leaves (virtual_shards.h): TrainBatch calls it between microbatches to make the
// step the same on any number of ranks and with any sharding strategy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/core/communicator.h"
#include "trainer/elastic/step_plan.h"
#include "trainer/elastic/tree_accumulator.h"

namespace composer {

class ElasticStep final : public StepPlan {
 public:
  // Requires valid options (ValidateVirtualShards) for the communicator's ranks. `params` are those that get gradients,
  // if gradients are to be summed here; empty if the GradientSync sums passes in the order of the tree (Fsdp). All must
  // outlive this object. Throws c10::ValueError when the communicator's sums do not have that order.
  ElasticStep(State& state, const ElasticOptions& options, std::vector<at::Tensor> params, Communicator& communicator);

  void BeginStep(int64_t global_samples) override;
  // The number of passes does not depend on the rank.
  int64_t NumPasses(int64_t /*samples*/) const override { return num_passes(); }
  std::vector<Microbatch> Plan(int64_t samples) const override;
  // Returns the rows in memory of their own: where a slice begins in a batch depends on the rank, and kernels may round
  // differently at another alignment. What the dataset counted of the rank's batch is dropped.
  Batch Rows(const Batch& whole, const Microbatch& microbatch) const override;
  // Zeroes gradients, losses and train metrics, and restores the buffers from the beginning of the step.
  void BeginPart(const Microbatch& leaf, int64_t index, LossSums& losses) override;
  // Adds the leaf's results. Leaves without samples count as zeros, at their place in the tree.
  void EndPart(const Microbatch& leaf, LossSums& losses) override;
  // Sets the parameters' gradients to the sum over this rank's leaves, which the ranks then sum; zeros for a parameter
  // that none of them used, as in the sharding strategies.
  void FinishParts() override;
  // Sums the losses of the global batch and the train metrics' sums over ranks, in double by the same tree; the
  // message's losses become these. A collective. On all ranks the buffers become those of the first leaf with samples;
  // this takes one more broadcast per buffer in a step that changed any.
  void SumOverRanks(StepMessage& agreed) override;
  std::vector<double> MoreParts(LossSums& /*losses*/) const override { return more_parts_; }
  bool sums_at_the_end() const override { return true; }

 private:
  int64_t num_passes() const { return composer::NumPasses(leaves_, options_.place.degrees); }
  int64_t first_leaf() const { return FirstLeafWithSamples(global_samples_, leaves_); }
  // Adds zeros for the leaves before this pass that had no samples.
  void SkipTo(int64_t pass);
  int64_t BufferVersions() const;
  void SettleBuffers(bool changed);

  State& state_;
  ElasticOptions options_;
  std::vector<at::Tensor> params_;
  Communicator& communicator_;
  int64_t global_samples_ = 0, leaves_ = 0;
  TreeAccumulator sum_;
  int64_t next_pass_ = 0;  // the pass whose term comes next
  // A row has, for one leaf: loss, parts, sums of the metrics, whether buffers changed. Each row is written by one
  // rank.
  std::vector<double> numbers_;
  std::vector<double> totals_, more_parts_;
  std::vector<at::Tensor> buffers_, start_buffers_, first_buffers_;  // now, before the step, after first_leaf()
  int64_t versions_ = 0;
};

}  // namespace composer
