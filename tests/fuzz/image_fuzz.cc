// Runs the decoders of JPEG and PNG on arbitrary bytes: what they decode has the channels that were asked for, and
// no file gets more pixels than it is allowed.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "data/image/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMaxPixels = 1 << 18;
  const absl::string_view file(reinterpret_cast<const char*>(data), size);
  for (const int channels : {0, 1, 3, 4}) {
    const auto image = composer::DecodeImage(file, channels, kMaxPixels);
    if (!image.ok()) continue;
    if (image->height * image->width > kMaxPixels || (channels > 0 && image->channels != channels)) std::abort();
    if (image->bytes.size() != static_cast<size_t>(image->height * image->width * image->channels)) std::abort();
  }
  return 0;
}
