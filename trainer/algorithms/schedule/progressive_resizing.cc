// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/schedule/progressive_resizing.h"

#include <torch/enum.h>
#include <torch/nn/functional/upsampling.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

at::Tensor Nearest(const at::Tensor& x, double scale) {
  return torch::nn::functional::interpolate(x, torch::nn::functional::InterpolateFuncOptions()
                                                   .scale_factor(std::vector<double>{scale, scale})
                                                   .mode(torch::kNearest)
                                                   .recompute_scale_factor(false));
}

struct Corner {
  int64_t top = 0, left = 0;
};

at::Tensor Crop(const at::Tensor& x, double scale, const Corner& corner) {
  const auto height = static_cast<int64_t>(scale * static_cast<double>(x.size(2)));
  const auto width = static_cast<int64_t>(scale * static_cast<double>(x.size(3)));
  return x.slice(2, corner.top, corner.top + height).slice(3, corner.left, corner.left + width);
}

int64_t DrawStart(int64_t size, double scale) {
  const int64_t places = size - static_cast<int64_t>(scale * static_cast<double>(size));
  return places < 1 ? 0 : torch::randint(places, {1}, torch::dtype(at::kLong)).item<int64_t>();
}

}  // namespace

absl::Status Validate(const ProgressiveResizingOptions& options) {
  const auto refuse = [](absl::string_view field, auto value, absl::string_view range) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", it must be ", range));
  };
  if (!(options.initial_scale > 0 && options.initial_scale <= 1))
    return refuse("initial_scale", options.initial_scale, "above 0 and at most 1");
  if (!(options.finetune_fraction >= 0 && options.finetune_fraction <= 1))
    return refuse("finetune_fraction", options.finetune_fraction, "between 0 and 1");
  if (!(options.delay_fraction >= 0 && options.delay_fraction + options.finetune_fraction <= 1))
    return refuse("delay_fraction", options.delay_fraction, "between 0 and 1 - finetune_fraction");
  if (options.size_increment < 1) return refuse("size_increment", options.size_increment, "at least 1");
  return absl::OkStatus();
}

double ResizingScale(const ProgressiveResizingOptions& options, double elapsed) {
  const double growing = 1 - options.finetune_fraction - options.delay_fraction;
  double part = 0;
  if (elapsed >= options.delay_fraction)
    part = growing <= 0 ? 1 : std::min((elapsed - options.delay_fraction) / growing, 1.0);
  return options.initial_scale + (1 - options.initial_scale) * part;
}

double RoundedScale(int64_t width, double scale, int64_t size_increment) {
  const auto whole = static_cast<double>(width), increment = static_cast<double>(size_increment);
  // Halves go to the even one, as in Python. No image is left without a pixel.
  return std::max(increment, std::nearbyint(whole * scale / increment) * increment) / whole;
}

ResizedBatch ResizeBatch(const at::Tensor& inputs, const at::Tensor& targets, double scale, bool crop,
                         bool resize_targets) {
  if (scale >= 1) return {inputs, targets};
  const bool indices = resize_targets && at::isIntegralType(targets.scalar_type(), false) && targets.dim() == 3;
  at::Tensor y = indices ? targets.unsqueeze(1) : targets;
  TORCH_CHECK_VALUE(!resize_targets || y.dim() == 4,
                    "progressive_resizing: resize_targets needs targets [B, H, W] or [B, C, H, W], they have ",
                    targets.dim(), " dimensions");
  ResizedBatch resized{inputs, targets};
  if (crop) {
    const Corner corner = {DrawStart(inputs.size(2), scale), DrawStart(inputs.size(3), scale)};
    resized.inputs = Crop(inputs, scale, corner);
    if (!resize_targets) return resized;
    const auto in_targets = [&](int64_t at, int64_t dim) {
      return static_cast<int64_t>(static_cast<double>(y.size(dim)) / static_cast<double>(inputs.size(dim)) *
                                  static_cast<double>(at));
    };
    y = Crop(y, scale, {in_targets(corner.top, 2), in_targets(corner.left, 3)});
  } else {
    resized.inputs = Nearest(inputs, scale);
    if (!resize_targets) return resized;
    y = Nearest(indices ? y.to(at::kFloat) : y, scale).to(targets.scalar_type());
  }
  resized.targets = indices ? y.squeeze(1) : y;
  return resized;
}

absl::Status ProgressiveResizing::Apply(Event /*event*/, State& state, Logger& logger) {
  Batch& batch = state.batch;
  TORCH_CHECK_VALUE(batch.inputs.defined() && batch.inputs.dim() == 4,
                    "progressive_resizing: it takes images [B, C, H, W]; the inputs ",
                    batch.inputs.defined() ? c10::str("have shape ", batch.inputs.sizes()) : "are missing");
  const double scale = ResizingScale(options_, ElapsedFraction(state.timestamp, state.max_duration));
  const double rounded = RoundedScale(batch.inputs.size(3), scale, options_.size_increment);
  ResizedBatch resized = ResizeBatch(batch.inputs, batch.targets, rounded, options_.crop, options_.resize_targets);
  batch.inputs = std::move(resized.inputs);
  batch.targets = std::move(resized.targets);
  logger.Log("progressive_resizing/height", static_cast<double>(batch.inputs.size(2)));
  logger.Log("progressive_resizing/width", static_cast<double>(batch.inputs.size(3)));
  logger.Log("progressive_resizing/scale_factor", scale);
  return absl::OkStatus();
}

}  // namespace composer
