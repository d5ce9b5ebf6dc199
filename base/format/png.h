// Encodes pixels as PNG files: 8 bits per channel, grey or RGB, compressed by zlib, no filters.
// Source: https://www.w3.org/TR/png-3/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace composer {

// Row from the top, column from the left, channel: height * width * channels bytes.
struct PngPixels {
  int height = 0, width = 0, channels = 1;  // 1: grey, 3: RGB
  absl::Span<const uint8_t> bytes;
};

// Returns the file's bytes, or kInvalidArgument when there are no pixels, when their number is not height * width *
// channels, or when channels is neither 1 nor 3.
absl::StatusOr<std::string> EncodePng(const PngPixels& pixels);

}  // namespace composer
