// A training step by virtual shards (virtual_shards.h): what TrainBatch does between microbatches to make the step the
// same on any number of ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "trainer/core/state.h"
#include "trainer/loss_sums.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/tree_accumulator.h"
#include "trainer/virtual_shards.h"

namespace composer {

class ElasticStep {
 public:
  // shards >= 1, valid for the communicator's world. params: those that get gradients. All must outlive it. Throws c10::ValueError when the
  // communicator's sums do not have the order of the tree.
  ElasticStep(State& state, int shards, std::vector<at::Tensor> params, Communicator& communicator);

  // This rank's microbatches of a global batch.
  std::vector<Microbatch> Plan(int64_t global_samples, int64_t microbatch_size) const;

  // The rows of a microbatch in memory of their own: where a slice begins in a batch depends on the rank, and kernels
  // may round differently at another alignment.
  static Batch Rows(const Batch& batch, const Microbatch& microbatch);

  void BeginStep();
  // Random numbers of the shard; gradients, losses and train metrics from zero.
  void BeginShard(int shard, LossSums& losses);
  // Takes what the shard gave. Shards without samples are left out: they count as zeros, at their place in the tree.
  void EndShard(int shard, LossSums& losses);
  // After this rank's last shard: gradients of the parameters = sum over its shards, which the ranks then sum. Buffers
  // are as the rank's first shard left them (as before the step, if it had no samples): rank 0's, which are saved, are
  // those of shard 0.
  void FinishShards();

  // A collective: losses of the global batch, and the train metrics' sums, in double by the same tree. The message's
  // parts become theirs.
  void SumOverRanks(StepMessage& agreed);
  double loss() const { return numbers_[0]; }

 private:
  int first_shard() const { return communicator_.rank() * shards_per_rank(); }
  int shards_per_rank() const { return shards_ / communicator_.world_size(); }
  // Zeros for the shards before `shard` that had no samples.
  void SkipTo(int shard);

  State& state_;
  int shards_;
  std::vector<at::Tensor> params_;
  Communicator& communicator_;
  TreeAccumulator sum_;
  std::vector<double> numbers_;                      // [loss, parts, sums of the metrics]
  std::vector<at::Tensor> buffers_, first_buffers_;  // the model's, and as they will be after the step
  int next_shard_ = 0;                               // whose term comes next
};

}  // namespace composer
