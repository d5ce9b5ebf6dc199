// Tensors as pictures for the loggers. Pure, but for waiting for the device that a tensor is on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/core/logger.h"

namespace composer {

// A batch that can be seen: [B, C, H, W], with channels_last [B, H, W, C], or [B, H, W]; not empty.
bool IsImageBatch(const at::Tensor& batch);

// The first `limit` of them. uint8 as it is; numbers within [0, 1] times 255; others (normalised inputs, mostly)
// stretched so that the smallest is black and the largest white, over all images shown. NaN is black. Three channels are
// RGB; of any other number the first is shown, grey.
std::vector<Image> ImagesOf(const at::Tensor& batch, int64_t limit, bool channels_last);

// Class numbers [B, H, W] as colours: 0 black, then a palette of distinct colours, which repeats after 20; negative
// numbers (ignored pixels) white.
std::vector<Image> MasksOf(const at::Tensor& classes, int64_t limit);

}  // namespace composer
