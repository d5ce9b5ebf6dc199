// Encodes images as PNG files: 8 bits per channel, grey or RGB, compressed by zlib, no filters.
// Source: https://www.w3.org/TR/png-3/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/logger.h"

namespace composer {

// Returns the file's bytes, or kInvalidArgument when the image has no pixels, when their number is not height * width *
// channels, or when channels is neither 1 nor 3.
absl::StatusOr<std::string> EncodePng(const Image& image);

}  // namespace composer
