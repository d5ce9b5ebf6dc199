// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(PrintableTest, ControlCharactersAreEscapedAndTheRestStays) {
  const struct {
    std::string text, line, lines;
  } cases[] = {
      {"", "", ""},
      {"run 1", "run 1", "run 1"},
      {"Größe 東京 🙂", "Größe 東京 🙂", "Größe 東京 🙂"},
      {"\033[2J\033]0;owned\007", "\\x1b[2J\\x1b]0;owned\\x07", "\\x1b[2J\\x1b]0;owned\\x07"},
      {"a\nb\tc\rd", "a\\nb\\tc\\x0dd", "a\nb\tc\\x0dd"},
      {std::string("a\0b", 3), "a\\x00b", "a\\x00b"},
      {"\x7f", "\\x7f", "\\x7f"},
      {"\xc2\x9b"
       "2J\xc2\xa0",
       "\\xc2\\x9b"
       "2J\xc2\xa0",
       "\\xc2\\x9b"
       "2J\xc2\xa0"},  // C1's CSI; a no-break space
      {"m\xff", "m\\xff", "m\\xff"},
      {"\xc3", "\\xc3", "\\xc3"},                                                          // truncated
      {"\xc0\xaf\xe0\x80\x9b", "\\xc0\\xaf\\xe0\\x80\\x9b", "\\xc0\\xaf\\xe0\\x80\\x9b"},  // overlong
      {"\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Printable(c.text), c.line);
    EXPECT_EQ(PrintableText(c.text), c.lines);
  }
}

}  // namespace
}  // namespace composer
