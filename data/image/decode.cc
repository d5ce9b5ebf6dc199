// SPDX-License-Identifier: Apache-2.0
#include "data/image/decode.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "data/image/jpeg.h"
#include "data/image/png.h"

namespace composer {
namespace {

constexpr absl::string_view kPngStart("\x89PNG\r\n\x1a\n", 8);
constexpr absl::string_view kJpegStart("\xff\xd8\xff", 3);

absl::Status NotAnImage() {
  return absl::InvalidArgumentError("this is neither a JPEG nor a PNG file, by its first bytes");
}

// Calls fn(from, to) for each pixel.
template <typename Fn>
Pixels Mapped(const Pixels& image, int channels, Fn fn) {
  Pixels result(image.height, image.width, channels);
  const uint8_t* from = image.bytes.data();
  uint8_t* to = result.bytes.data();
  for (int64_t i = 0; i < image.height * image.width; ++i, from += image.channels, to += channels) fn(from, to);
  return result;
}

Pixels ToColour(const Pixels& image, int channels) {
  const bool grey = image.channels < 3, has_alpha = image.channels % 2 == 0;
  return Mapped(image, channels, [=, alpha = image.channels - 1](const uint8_t* from, uint8_t* to) {
    to[0] = from[0];
    to[1] = from[grey ? 0 : 1];
    to[2] = from[grey ? 0 : 2];
    if (channels == 4) to[3] = has_alpha ? from[alpha] : 255;
  });
}

}  // namespace

Pixels WithChannels(Pixels image, int channels) {
  if (image.channels == channels) return image;
  if (channels > 1) return ToColour(image, channels);
  if (image.channels == 2) return Mapped(image, 1, [](const uint8_t* from, uint8_t* to) { *to = *from; });
  return Mapped(image, 1, [](const uint8_t* from, uint8_t* to) { *to = Luma(from); });
}

absl::StatusOr<Pixels> DecodeImage(absl::string_view file, int channels, int64_t max_pixels) {
  const bool png = absl::StartsWith(file, kPngStart);
  if (!png && !absl::StartsWith(file, kJpegStart)) return NotAnImage();
  absl::StatusOr<Pixels> image =
      png ? DecodePng(file, channels == 4, max_pixels) : DecodeJpeg(file, channels, max_pixels);
  if (!image.ok() || channels == 0) return image;
  return WithChannels(*std::move(image), channels);
}

}  // namespace composer
