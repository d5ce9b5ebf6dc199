// SPDX-License-Identifier: Apache-2.0
#include "base/format/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace composer {
namespace {

uint32_t BigEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (const char c : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

TEST(PngTest, PixelsComeBack) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 18; ++i) pixels.push_back(static_cast<uint8_t>(14 * i));
  const auto png = EncodePng({2, 3, 3, pixels});
  ASSERT_TRUE(png.ok()) << png.status();
  absl::string_view rest = *png;
  ASSERT_TRUE(absl::StartsWith(rest, absl::string_view("\x89PNG\r\n\x1a\n", 8)));
  rest.remove_prefix(8);
  std::map<std::string, std::string> chunks;
  while (!rest.empty()) {
    const uint32_t length = BigEndian(rest);
    const absl::string_view body = rest.substr(4, 4 + length);
    EXPECT_EQ(BigEndian(rest.substr(8 + length)),
              crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
    chunks[std::string(body.substr(0, 4))] = std::string(body.substr(4));
    rest.remove_prefix(12 + length);
  }
  EXPECT_EQ(chunks["IHDR"], std::string("\0\0\0\3\0\0\0\2\x08\x02\0\0\0", 13));
  std::string raw(2 * 10, '?');
  uLongf size = raw.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(raw.data()), &size,
                       reinterpret_cast<const Bytef*>(chunks["IDAT"].data()), chunks["IDAT"].size()),
            Z_OK);
  ASSERT_EQ(size, 20u);
  for (size_t y = 0; y < 2; ++y) {
    EXPECT_EQ(raw[10 * y], 0);
    for (size_t x = 0; x < 9; ++x) EXPECT_EQ(static_cast<uint8_t>(raw[10 * y + 1 + x]), pixels[9 * y + x]);
  }
  EXPECT_TRUE(chunks.count("IEND") == 1 && chunks["IEND"].empty());
}

TEST(PngTest, WhatIsNoImageIsRefused) {
  const std::vector<uint8_t> bytes(3);
  for (const PngPixels& pixels :
       {PngPixels{0, 1, 1, {}}, PngPixels{1, 1, 2, {bytes.data(), 2}}, PngPixels{2, 2, 1, bytes}})
    EXPECT_EQ(EncodePng(pixels).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace composer
