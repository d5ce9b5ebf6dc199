// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/cutmix.h"

#include <torch/torch.h>

#include <cmath>

#include "trainer/core/state.h"
#include "trainer/loss/one_hot.h"

namespace composer {
namespace {

// The targets of the samples that were pasted in travel with the batch, so that microbatches have theirs.
constexpr char kPastedIn[] = "cutmix/targets";

bool AreImages(const at::Tensor& targets, const at::Tensor& inputs) {
  return targets.dim() > 2 && targets.size(-1) == inputs.size(-1) && targets.size(-2) == inputs.size(-2);
}

}  // namespace

ImageSize CutMixSize(const ImageSize& image, double b) {
  const double side = std::sqrt(1 - b);
  return {static_cast<int64_t>(static_cast<double>(image.height) * side),
          static_cast<int64_t>(static_cast<double>(image.width) * side)};
}

at::Tensor CutMixBatch(const at::Tensor& x, const at::Tensor& permutation, const ImageBox& box) {
  const auto cut = [&](const at::Tensor& images) {
    return images.slice(-2, box.top, box.bottom).slice(-1, box.left, box.right);
  };
  at::Tensor mixed = x.clone();
  cut(mixed).copy_(cut(x).index_select(0, permutation.to(x.device())));
  return mixed;
}

EventSet CutMix::events() const {
  return {Event::kBatchStart, options_.interpolate_loss ? Event::kBeforeBackward : Event::kBeforeLoss};
}

void CutMix::MixInputs(Batch& batch) {
  TORCH_CHECK_VALUE(batch.inputs.defined() && batch.inputs.dim() >= 3 && batch.targets.defined(),
                    "cutmix: it mixes images [B, C, H, W], with targets; the inputs are ",
                    batch.inputs.defined() ? "of fewer dimensions" : "missing");
  const ImageSize image = {batch.inputs.size(-2), batch.inputs.size(-1)};
  const double b = options_.alpha == 0 ? 0 : DrawBeta(options_.alpha);
  const at::Tensor permutation =
      torch::randperm(batch.inputs.size(0), torch::dtype(at::kLong)).to(batch.targets.device());
  const ImageBox box = DrawBox(image, CutMixSize(image, b), options_.uniform_sampling);
  kept_ = 1 - static_cast<double>(box.area()) / static_cast<double>(image.height * image.width);
  if (AreImages(batch.targets, batch.inputs)) {
    TORCH_CHECK_VALUE(!options_.interpolate_loss,
                      "cutmix: interpolate_loss does not go with targets of the images' size, "
                      "into which the box is pasted");
    batch.targets = CutMixBatch(batch.targets, permutation, box);
  } else {
    batch.extra[kPastedIn] = batch.targets.index_select(0, permutation);
  }
  batch.inputs = CutMixBatch(batch.inputs, permutation, box);
}

absl::Status CutMix::Apply(Event event, State& state, Logger& /*logger*/) {
  Batch& batch = state.batch;
  if (event == Event::kBatchStart) {
    if (batch.num_samples > 0) MixInputs(batch);
    return absl::OkStatus();
  }
  if (!batch.extra.contains(kPastedIn)) return absl::OkStatus();
  const at::Tensor pasted_in = batch.Get(kPastedIn);
  if (event == Event::kBeforeLoss) {
    batch.targets = kept_ * OneHotTargets("cutmix", state.outputs, batch.targets) +
                    (1 - kept_) * OneHotTargets("cutmix", state.outputs, pasted_in);
    return absl::OkStatus();
  }
  Batch other = batch;
  other.targets = pasted_in;
  state.loss = kept_ * state.loss + (1 - kept_) * state.model->loss(state.outputs, other).total;
  return absl::OkStatus();
}

}  // namespace composer
