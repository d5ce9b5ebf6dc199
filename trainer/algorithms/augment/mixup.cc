// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/mixup.h"

#include <torch/torch.h>

#include <algorithm>

#include "trainer/algorithms/augment/draws.h"
#include "trainer/core/state.h"
#include "trainer/loss/one_hot.h"

namespace composer {
namespace {

// The targets of the samples that were mixed in travel with the batch, so that microbatches have theirs.
constexpr char kMixedIn[] = "mixup/targets";

}  // namespace

at::Tensor MixUpBatch(const at::Tensor& x, double mixing, const at::Tensor& permutation) {
  return (1 - mixing) * x + mixing * x.index_select(0, permutation.to(x.device()));
}

double DrawMixing(double alpha) {
  if (alpha == 0) return 0;
  const double drawn = DrawBeta(alpha);
  return std::min(drawn, 1 - drawn);
}

EventSet MixUp::events() const {
  return {Event::kBatchStart, options_.interpolate_loss ? Event::kBeforeBackward : Event::kBeforeLoss};
}

void MixUp::MixInputs(Batch& batch) {
  TORCH_CHECK_VALUE(batch.inputs.defined() && batch.inputs.is_floating_point() && batch.targets.defined(),
                    "mixup: it mixes inputs that are floating point, with targets; these are ",
                    batch.inputs.defined() ? toString(batch.inputs.scalar_type()) : "missing");
  mixing_ = DrawMixing(options_.alpha);
  const at::Tensor permutation = torch::randperm(batch.inputs.size(0), torch::dtype(at::kLong));
  batch.inputs = MixUpBatch(batch.inputs, mixing_, permutation);
  batch.extra[kMixedIn] = batch.targets.index_select(0, permutation.to(batch.targets.device()));
}

absl::Status MixUp::Apply(Event event, State& state, Logger& /*logger*/) {
  Batch& batch = state.batch;
  if (event == Event::kBatchStart) {
    if (batch.num_samples > 0) MixInputs(batch);
    return absl::OkStatus();
  }
  const at::Tensor mixed_in = batch.Get(kMixedIn);
  if (event == Event::kBeforeLoss) {
    batch.targets = (1 - mixing_) * OneHotTargets("mixup", state.outputs, batch.targets) +
                    mixing_ * OneHotTargets("mixup", state.outputs, mixed_in);
    return absl::OkStatus();
  }
  Batch other = batch;
  other.targets = mixed_in;
  state.loss = (1 - mixing_) * state.loss + mixing_ * state.model->loss(state.outputs, other).total;
  return absl::OkStatus();
}

}  // namespace composer
