// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(FirstBadUtf8, FindsTheFirstByteThatDoesNotBelong) {
  const struct {
    absl::string_view text;
    size_t at;
  } kCases[] = {
      {"", absl::string_view::npos},
      {"plain", absl::string_view::npos},
      {"ä€😀", absl::string_view::npos},
      {"m\xff", 1},
      {"ab\xc3", 2},            // truncated
      {"\xc0\xaf", 0},          // overlong
      {"\xe0\x80\xaf", 0},      // overlong
      {"\xed\xa0\x80", 0},      // a surrogate
      {"\xf4\x90\x80\x80", 0},  // beyond U+10FFFF
      {"\xf4\x8f\xbf\xbf", absl::string_view::npos},
      {"x\x80", 1},
      {"M\xfcller", 1},  // Latin-1
  };
  for (const auto& c : kCases) EXPECT_EQ(FirstBadUtf8(c.text), c.at) << c.text;
}

}  // namespace
}  // namespace composer
