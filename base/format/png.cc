// SPDX-License-Identifier: Apache-2.0
#include "base/format/png.h"

#include <zlib.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr absl::string_view kSignature("\x89PNG\r\n\x1a\n", 8);
constexpr char kGrey = 0, kRgb = 2;

void AppendBigEndian(uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>((value >> shift) & 0xff));
}

// Appends length, type, data, and the CRC of type and data.
void AppendChunk(absl::string_view type, absl::string_view data, std::string& out) {
  AppendBigEndian(static_cast<uint32_t>(data.size()), out);
  const std::string body = absl::StrCat(type, data);
  out += body;
  AppendBigEndian(static_cast<uint32_t>(
                      crc32(0, reinterpret_cast<const unsigned char*>(body.data()), static_cast<uInt>(body.size()))),
                  out);
}

absl::StatusOr<std::string> Deflate(const std::string& raw) {
  uLongf size = compressBound(raw.size());
  std::string packed(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
                             raw.size(), Z_DEFAULT_COMPRESSION);
  if (code != Z_OK) return absl::ResourceExhaustedError(absl::StrCat("zlib cannot compress an image: ", code));
  packed.resize(size);
  return packed;
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const PngPixels& image) {
  constexpr int kMaxSide = 1 << 16;
  const bool sizes_ok = image.height >= 1 && image.width >= 1 && image.height <= kMaxSide && image.width <= kMaxSide &&
                        (image.channels == 1 || image.channels == 3);
  const size_t row = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  if (!sizes_ok || image.bytes.size() != row * static_cast<size_t>(image.height)) {
    return absl::InvalidArgumentError(absl::StrCat("no image: ", image.height, " x ", image.width, " x ",
                                                   image.channels, " with ", image.bytes.size(), " bytes"));
  }
  std::string raw;
  raw.reserve((row + 1) * static_cast<size_t>(image.height));
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y) {
    raw.push_back(0);  // the row's filter: none
    raw.append(reinterpret_cast<const char*>(image.bytes.data()) + y * row, row);
  }
  const absl::StatusOr<std::string> packed = Deflate(raw);
  if (!packed.ok()) return packed.status();
  std::string header;
  AppendBigEndian(static_cast<uint32_t>(image.width), header);
  AppendBigEndian(static_cast<uint32_t>(image.height), header);
  header += {8, image.channels == 1 ? kGrey : kRgb, 0, 0, 0};  // depth, colours, deflate, filters, not interlaced
  std::string png(kSignature);
  AppendChunk("IHDR", header, png);
  AppendChunk("IDAT", *packed, png);
  AppendChunk("IEND", "", png);
  return png;
}

}  // namespace composer
