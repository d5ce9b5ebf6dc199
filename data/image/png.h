// PNG files by libpng. For decode.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image/decode.h"

namespace composer {

// Decodes to the file's 1 to 4 channels; a palette to 3, or with `alpha` and transparent entries to 4. Fewer than 8
// bits are scaled to 8, of 16 the higher byte is taken. Checksums are verified.
absl::StatusOr<Pixels> DecodePng(absl::string_view file, bool alpha, int64_t max_pixels);

}  // namespace composer
