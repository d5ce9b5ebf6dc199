// ProgressiveResizing trains on smaller images first: the width of a batch is, rounded to a multiple of size_increment,
//
//   W s,  s = initial_scale + (1 - initial_scale) min(1, (e - delay_fraction) / (1 - finetune_fraction -
//   delay_fraction))
//
// at the part e of the run, initial_scale before delay_fraction; the height in proportion. `resize` takes the nearest
// pixels, `crop` a box at a place drawn for the rank's batch. Needs a model that takes images of any size. Logs
// progressive_resizing/{height,width,scale_factor}.
//
// Source: fastai's progressive resizing (Howard 2018); mosaicml
// composer/algorithms/progressive_resizing/progressive_resizing.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/core/callback.h"

namespace composer {

struct ProgressiveResizingOptions {
  bool crop = false;               // mode: crop instead of resize
  double initial_scale = 0.5;      // 0 to 1
  double finetune_fraction = 0.2;  // the part of the run at its end with whole images, 0 to 1
  double delay_fraction = 0.5;     // the part at its beginning with the smallest, 0 to 1 - finetune_fraction
  int64_t size_increment = 4;      // >= 1
  bool resize_targets = false;     // targets are images, too
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const ProgressiveResizingOptions& options);

// Returns s of the formula above.
double ResizingScale(const ProgressiveResizingOptions& options, double elapsed);
// Returns the scale of images of this width: that at which they have the rounded one.
double RoundedScale(int64_t width, double scale, int64_t size_increment);

struct ResizedBatch {
  at::Tensor inputs, targets;
};
// Returns images [B, C, H, W] at this scale, and with resize_targets the targets [B, H, W] (of integers) or
// [B, C, H, W] at the same. A scale from 1 on changes nothing. `crop` draws by torch's generator.
ResizedBatch ResizeBatch(const at::Tensor& inputs, const at::Tensor& targets, double scale, bool crop,
                         bool resize_targets);

class ProgressiveResizing final : public Algorithm {
 public:
  explicit ProgressiveResizing(const ProgressiveResizingOptions& options = {}) : options_(options) {}
  std::string name() const override { return "ProgressiveResizing"; }
  EventSet events() const override { return {Event::kAfterDataloader}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) override;

 private:
  ProgressiveResizingOptions options_;
};

}  // namespace composer
