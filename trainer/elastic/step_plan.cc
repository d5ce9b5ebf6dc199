// SPDX-License-Identifier: Apache-2.0
#include "trainer/elastic/step_plan.h"

#include <algorithm>

#include "trainer/core/random.h"

namespace composer {

Batch SplitOf(const State& state, const Batch& whole, const Microbatch& microbatch) {
  return SpecOf(state.dataloader).Split(whole, microbatch.begin, microbatch.end);
}

int64_t PlainPlan::NumPasses(int64_t samples) const {
  const int64_t size = state_.settings.device_train_microbatch_size;
  return size > 0 ? std::max<int64_t>(1, (samples + size - 1) / size) : 1;
}

std::vector<Microbatch> PlainPlan::Plan(int64_t samples) const {
  return PlanMicrobatches(samples, state_.settings.device_train_microbatch_size);
}

Batch PlainPlan::Rows(const Batch& whole, const Microbatch& microbatch) const {
  if (microbatch.samples() == whole.num_samples) return whole;
  return SplitOf(state_, whole, microbatch);
}

void PlainPlan::BeginPart(const Microbatch& /*microbatch*/, int64_t index, LossSums& /*losses*/) {
  SeedForMicrobatch(state_.identity.seed, state_.identity.data_rank, state_.timestamp.batch, index);
}

std::vector<double> PlainPlan::MoreParts(LossSums& losses) const {
  const std::vector<double>& parts = losses.parts();
  if (parts.size() <= StepMessage::kMaxLossParts) return {};
  return {parts.begin() + StepMessage::kMaxLossParts, parts.end()};
}

}  // namespace composer
