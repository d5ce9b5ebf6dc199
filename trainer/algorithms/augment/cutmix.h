// CutMix pastes a box of one image into another, and mixes their targets by area:
//
//   x[box] <- x[p][box],  t <- k t + (1 - k) t[p],  k = 1 - |box| / (H W)
//
// with one box and one permutation p for the rank's whole batch, drawn at BATCH_START, so that the size of microbatches
// changes nothing (Composer draws for each microbatch). The box has the sides sqrt(1 - b) H and sqrt(1 - b) W, b drawn
// from Beta(alpha, alpha), and its centre anywhere; what lies outside the image is cut off. Targets are mixed as dense
// ones before the loss; those that are images of the inputs' size (segmentation) have the box pasted instead. With
// interpolate_loss the losses of the two targets are mixed. Metrics see the given targets.
// Source: Yun et al. 2019, arXiv:1905.04899; mosaicml composer/algorithms/cutmix/cutmix.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/algorithms/augment/draws.h"
#include "trainer/algorithms/augment/pair_mixing.h"

namespace composer {

struct CutMixOptions {
  double alpha = 1.0;  // >= 0; 0 replaces an image (boxes of its size)
  bool interpolate_loss = false;
  bool uniform_sampling = false;  // each pixel is replaced with the same probability
};

// Returns the size of the box for b.
ImageSize CutMixSize(const ImageSize& image, double b);
// Returns x [B, *, H, W] with the box from x[permutation]; permutation is int64 [B].
at::Tensor CutMixBatch(const at::Tensor& x, const at::Tensor& permutation, const ImageBox& box);

class CutMix final : public PairMixing {
 public:
  explicit CutMix(const CutMixOptions& options = {})
      : PairMixing("cutmix", options.interpolate_loss), options_(options) {}
  std::string name() const override { return "CutMix"; }

 private:
  Mixed MixInputs(Batch& batch) override;

  const CutMixOptions options_;
};

}  // namespace composer
