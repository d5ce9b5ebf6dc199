// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/cutmix.h"

#include <torch/types.h>

#include <cmath>

namespace composer {
namespace {

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

PairMixing::Mixed CutMix::MixInputs(Batch& batch) {
  TORCH_CHECK_VALUE(batch.inputs.defined() && batch.inputs.dim() >= 3 && batch.targets.defined(),
                    "cutmix: it mixes images [B, C, H, W], with targets; the inputs ",
                    batch.inputs.defined() ? c10::str("have shape ", batch.inputs.sizes()) : "are missing");
  const ImageSize image = {batch.inputs.size(-2), batch.inputs.size(-1)};
  const double b = options_.alpha == 0 ? 0 : DrawBeta(options_.alpha);
  const at::Tensor permutation =
      torch::randperm(batch.inputs.size(0), torch::dtype(at::kLong)).to(batch.targets.device());
  const ImageBox box = DrawBox(image, CutMixSize(image, b), options_.uniform_sampling);
  const double kept = 1 - static_cast<double>(box.area()) / static_cast<double>(image.height * image.width);
  Mixed mixed = {kept, 1 - kept, at::Tensor()};
  if (AreImages(batch.targets, batch.inputs)) {
    TORCH_CHECK_VALUE(!options_.interpolate_loss,
                      "cutmix: interpolate_loss does not go with targets of the images' size, "
                      "into which the box is pasted");
    batch.targets = CutMixBatch(batch.targets, permutation, box);
  } else {
    mixed.targets = batch.targets.index_select(0, permutation);
  }
  batch.inputs = CutMixBatch(batch.inputs, permutation, box);
  return mixed;
}

}  // namespace composer
