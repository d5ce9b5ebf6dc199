// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/cutout.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "trainer/core/state.h"

namespace composer {

at::Tensor CutOutBatch(const at::Tensor& x, const std::vector<ImageBox>& boxes) {
  at::Tensor cut = x.clone();
  for (const ImageBox& box : boxes) cut.slice(-2, box.top, box.bottom).slice(-1, box.left, box.right).zero_();
  return cut;
}

std::vector<ImageBox> DrawHoles(const ImageSize& image, const CutOutOptions& options) {
  const auto side = static_cast<int64_t>(static_cast<double>(std::min(image.height, image.width)) * options.length);
  std::vector<ImageBox> boxes;
  for (int64_t i = 0; i < options.num_holes; ++i)
    boxes.push_back(DrawBox(image, {side, side}, options.uniform_sampling));
  return boxes;
}

absl::Status CutOut::Apply(Event /*event*/, State& state, Logger& /*logger*/) {
  at::Tensor& images = state.batch.inputs;
  TORCH_CHECK_VALUE(images.defined() && images.dim() >= 3, "cutout: it takes images [B, C, H, W]; the inputs ",
                    images.defined() ? c10::str("have shape ", images.sizes()) : "are missing");
  images = CutOutBatch(images, DrawHoles({images.size(-2), images.size(-1)}, options_));
  return absl::OkStatus();
}

}  // namespace composer
