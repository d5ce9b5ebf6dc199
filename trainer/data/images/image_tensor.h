// Images as tensors: uint8 [C, H, W] with the channels innermost in memory, so that transforms of tensors see the usual
// shape and those of bytes (data/image/) the usual order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"
#include "data/image/pixels.h"
#include "trainer/core/dataset.h"

namespace composer {

// Takes the pixels' memory.
at::Tensor TensorOfImage(Pixels image);

// An image of bytes, and what keeps them.
struct ImageBytes {
  at::Tensor memory;
  PixelView view;
};
// Copies only if the channels are not innermost. Throws c10::ValueError that names `who` for all but uint8 [C, H, W]
// with 1 or 3 channels and at least one pixel.
ImageBytes BytesOfImage(const at::Tensor& image, absl::string_view who);

// Returns sample.tensors["inputs"]; throws c10::ValueError that names `who` if it is not an image [C, H, W].
at::Tensor& ImageIn(Sample& sample, absl::string_view who);

}  // namespace composer
