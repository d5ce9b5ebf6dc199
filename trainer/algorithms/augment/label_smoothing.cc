// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/label_smoothing.h"

#include <ATen/ATen.h>

#include <utility>

#include "trainer/core/state.h"
#include "trainer/loss/one_hot.h"

namespace composer {

at::Tensor SmoothLabels(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  TORCH_CHECK_VALUE(logits.dim() > 1, "label_smoothing: logits ", logits.sizes(), " have no dimension of classes");
  const at::Tensor dense = OneHotTargets("label_smoothing", logits, targets);
  return dense * (1 - smoothing) + smoothing / static_cast<double>(logits.size(1));
}

absl::Status LabelSmoothing::Apply(Event event, State& state, Logger& /*logger*/) {
  if (event == Event::kBeforeLoss) {
    given_ = state.batch.targets;
    state.batch.targets = SmoothLabels(state.outputs, given_, smoothing_);
  } else {
    state.batch.targets = std::exchange(given_, at::Tensor());
  }
  return absl::OkStatus();
}

}  // namespace composer
