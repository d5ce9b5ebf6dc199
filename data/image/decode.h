// Decodes JPEG (libjpeg-turbo) and PNG (libpng) files to 8-bit pixels, equal to PIL's. A file is not trusted: its size
// in pixels is bounded before anything is allocated, a size that its bytes cannot hold is refused, and what is cut off
// is an error, not grey. An orientation in EXIF and colour profiles are not applied, as in PIL. Threads: any number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image/pixels.h"

namespace composer {

// PIL refuses more as a decompression bomb.
inline constexpr int64_t kMaxImagePixels = 178956970;

// Decodes a file to 1, 3 or 4 channels, or with 0 to as many as it has: grey is 0.299 R + 0.587 G + 0.114 B, alpha that
// is not there 255, alpha that is not wanted dropped, the higher byte of 16 bits taken. kInvalidArgument for what is
// neither JPEG nor PNG, damaged or cut off, kResourceExhausted for more than max_pixels.
absl::StatusOr<Pixels> DecodeImage(absl::string_view file, int channels = 0, int64_t max_pixels = kMaxImagePixels);

// Returns the image with another number of channels, by the same rules. `channels`: 1, 3 or 4.
Pixels WithChannels(Pixels image, int channels);
// (19595 R + 38470 G + 7471 B + 2^15) / 2^16, as PIL has it.
inline uint8_t Luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

}  // namespace composer
