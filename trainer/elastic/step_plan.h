// A StepPlan divides a rank's batch into the microbatches of a step and says what happens around each: PlainPlan cuts
// rows as they come, ElasticStep makes leaves of a tree (elastic_step.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/core/batch.h"
#include "trainer/core/state.h"
#include "trainer/elastic/virtual_shards.h"
#include "trainer/step/loss_sums.h"
#include "trainer/step/step_message.h"

namespace composer {

// Threads: the training thread. Calls: BeginStep; for each microbatch of Plan that has samples BeginPart, EndPart;
// FinishParts; SumOverRanks.
class StepPlan {
 public:
  virtual ~StepPlan() = default;
  // `global_samples` is the size of this step's batch as the loader gave it, at least 1.
  virtual void BeginStep(int64_t global_samples) = 0;
  // Returns the number of passes of a rank with `samples` rows, which may include empty ones.
  virtual int64_t NumPasses(int64_t samples) const = 0;
  // Returns this rank's microbatches, one per pass, for its batch of `samples` rows; some may be empty. Throws
  // c10::ValueError if the plan has no place for them.
  virtual std::vector<Microbatch> Plan(int64_t samples) const = 0;
  virtual Batch Rows(const Batch& whole, const Microbatch& microbatch) const = 0;
  // Seeds torch's generator for the pass with this index. `losses` and the train metrics are those of the step.
  virtual void BeginPart(const Microbatch& microbatch, int64_t index, LossSums& losses) = 0;
  virtual void EndPart(const Microbatch& /*microbatch*/, LossSums& /*losses*/) {}
  virtual void FinishParts() {}
  // Called with the message that the ranks have summed.
  virtual void SumOverRanks(StepMessage& /*agreed*/) {}
  // Returns this rank's sums of the named losses after the first StepMessage::kMaxLossParts.
  virtual std::vector<double> MoreParts(LossSums& losses) const = 0;
  // True if a step's sums are finished only after all passes: nothing may be sent while the last backward runs, and
  // gradients are always summed over ranks.
  virtual bool sums_at_the_end() const { return false; }
};

// Returns the microbatch's samples as the training data splits its batches (DataSpec::Split).
Batch SplitOf(const State& state, const Batch& whole, const Microbatch& microbatch);

class PlainPlan final : public StepPlan {
 public:
  // `state` must outlive this object.
  explicit PlainPlan(const State& state) : state_(state) {}
  void BeginStep(int64_t /*global_samples*/) override {}
  int64_t NumPasses(int64_t samples) const override;
  std::vector<Microbatch> Plan(int64_t samples) const override;
  Batch Rows(const Batch& whole, const Microbatch& microbatch) const override;
  void BeginPart(const Microbatch& microbatch, int64_t index, LossSums& losses) override;
  std::vector<double> MoreParts(LossSums& losses) const override;

 private:
  const State& state_;
};

}  // namespace composer
