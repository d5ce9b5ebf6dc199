// Converts tensors to images for the loggers. Pure, except that it waits for a tensor's device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/core/logger.h"

namespace composer {

// Returns whether a batch can be shown: [B, C, H, W], with channels_last [B, H, W, C], or [B, H, W]; not empty.
bool IsImageBatch(const at::Tensor& batch);

// Returns the first `limit` images. uint8 values are kept; numbers within [0, 1] are multiplied by 255; others (mostly
// normalised inputs) are stretched so that the smallest is black and the largest white, over all images shown. NaN is
// black. Three channels are RGB; with any other number of channels the first is shown in grey.
std::vector<Image> ImagesOf(const at::Tensor& batch, int64_t limit, bool channels_last);

// Shows class numbers [B, H, W] as colours: 0 is black, the others take a palette of distinct colours that repeats
// after 20, and negative numbers (ignored pixels) are white.
std::vector<Image> MasksOf(const at::Tensor& classes, int64_t limit);

}  // namespace composer
