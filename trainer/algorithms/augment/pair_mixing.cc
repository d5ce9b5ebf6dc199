// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/pair_mixing.h"

#include <torch/types.h>

#include <string>

#include "trainer/core/state.h"
#include "trainer/loss/one_hot.h"

namespace composer {

EventSet PairMixing::events() const {
  return {mixing_event_, interpolate_loss_ ? Event::kBeforeBackward : Event::kBeforeLoss};
}

absl::Status PairMixing::Apply(Event event, State& state, Logger& /*logger*/) {
  Batch& batch = state.batch;
  const std::string name = std::string(key_) + "/targets";
  if (event == mixing_event_) {
    if (batch.num_samples == 0) return absl::OkStatus();
    const Mixed mixed = MixInputs(batch);
    own_ = mixed.own;
    other_ = mixed.other;
    if (mixed.targets.defined()) batch.extra[name] = mixed.targets;
    return absl::OkStatus();
  }
  if (!batch.extra.contains(name)) return absl::OkStatus();
  const at::Tensor targets = batch.Get(name);
  if (event == Event::kBeforeLoss) {
    batch.targets =
        own_ * OneHotTargets(key_, state.outputs, batch.targets) + other_ * OneHotTargets(key_, state.outputs, targets);
    return absl::OkStatus();
  }
  Batch other = batch;
  other.targets = targets;
  state.loss = own_ * state.loss + other_ * state.model->loss(state.outputs, other).total;
  return absl::OkStatus();
}

}  // namespace composer
