// Images as PNG files: 8 bits a channel, grey or RGB, compressed by zlib, no filters.
// Source: https://www.w3.org/TR/png-3/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/logger.h"

namespace composer {

// The file's bytes. kInvalidArgument when the image has no pixels, or not height * width * channels of them, or channels
// other than 1 and 3.
absl::StatusOr<std::string> EncodePng(const Image& image);

}  // namespace composer
