// JPEG files by libjpeg-turbo. For decode.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image/decode.h"

namespace composer {

// Decodes to the file's 1 or 3 channels (CMYK, which is stored inverted, becomes 3), or with `channels` 3 a grey file
// to 3. Exact integer transform and smooth upsampling, libjpeg's defaults.
absl::StatusOr<Pixels> DecodeJpeg(absl::string_view file, int channels, int64_t max_pixels);

}  // namespace composer
