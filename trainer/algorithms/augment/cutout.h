// CutOut blanks boxes of images: num_holes squares with a side of length * min(H, W) become 0, the same in all images
// of the rank's batch. Their centres are drawn anywhere in the image, and what lies outside is cut off.
//
// Source: DeVries & Taylor 2017, arXiv:1708.04552; mosaicml composer/algorithms/cutout/cutout.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/algorithms/augment/draws.h"
#include "trainer/core/callback.h"

namespace composer {

struct CutOutOptions {
  int64_t num_holes = 1;          // >= 0
  double length = 0.5;            // a part of the shorter side, 0 to 1
  bool uniform_sampling = false;  // each pixel is blanked with the same probability
};

// Returns x [*, H, W] with zeros in the boxes.
at::Tensor CutOutBatch(const at::Tensor& x, const std::vector<ImageBox>& boxes);
// Draws the boxes for images of this size.
std::vector<ImageBox> DrawHoles(const ImageSize& image, const CutOutOptions& options);

class CutOut final : public Algorithm {
 public:
  explicit CutOut(const CutOutOptions& options = {}) : options_(options) {}
  std::string name() const override { return "CutOut"; }
  EventSet events() const override { return {Event::kAfterDataloader}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) override;

 private:
  CutOutOptions options_;
};

}  // namespace composer
