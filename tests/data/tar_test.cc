// Tar archives as the tar program writes them, and damaged ones.
// SPDX-License-Identifier: Apache-2.0
#include "data/codec/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

std::string Padded(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
  return bytes;
}

// A member with a right checksum; `magic` is "ustar\0" or GNU's "ustar ".
std::string Member(const std::string& name, const std::string& bytes, char type = '0', const std::string& prefix = "",
                   const std::string& magic = std::string("ustar\0", 6)) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  const std::string digits = "01234567";
  std::string octal;
  for (size_t rest = bytes.size(), i = 0; i < 11; ++i, rest /= 8) octal.insert(octal.begin(), digits[rest % 8]);
  header.replace(124, 11, octal);
  header[156] = type;
  header.replace(257, 6, magic);
  header.replace(345, prefix.size(), prefix);
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::string check;
  for (unsigned i = 0; i < 6; ++i, sum /= 8) check.insert(check.begin(), digits[sum % 8]);
  header.replace(148, 7, check + std::string(1, '\0'));
  return header + Padded(bytes);
}

std::string Pax(const std::string& key, const std::string& value) {
  std::string record = absl::StrCat(" ", key, "=", value, "\n");
  size_t length = record.size() + 1;
  while (absl::StrCat(length, record).size() != length) ++length;
  return Member("PaxHeader", absl::StrCat(length, record), 'x');
}

const std::string& End() {
  static const auto& end = *new std::string(1024, '\0');
  return end;
}

TEST(Tar, ReadsNamesOfEveryKind) {
  const std::string far(180, 'n');
  const std::string archive = Member("a.jpg", "one") + Member("folder/", "", '5') +
                              Member("b.cls", "2", '0', "deep/er") + Member("link", "", '2') + Pax("path", "ü/c.txt") +
                              Member("short", std::string(513, 'x')) +
                              Member("././@LongLink", far + std::string(1, '\0'), 'L') +
                              Member("cut", "", '\0', "", "ustar ") + Member("d", "last") + End();
  const auto entries = ReadTar(archive);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 5U);
  EXPECT_EQ((*entries)[0].name, "a.jpg");
  EXPECT_EQ((*entries)[0].bytes, "one");
  EXPECT_EQ((*entries)[1].name, "deep/er/b.cls");
  EXPECT_EQ((*entries)[2].name, "ü/c.txt");
  EXPECT_EQ((*entries)[2].bytes.size(), 513U);
  EXPECT_EQ((*entries)[3].name, far);
  EXPECT_EQ((*entries)[4].bytes, "last");
  EXPECT_TRUE(ReadTar(Member("a", "x")).ok());  // without the zeros at the end
  EXPECT_TRUE(ReadTar("")->empty());
}

TEST(Tar, SaysWhereItIsDamaged) {
  std::string archive = Member("a", "one") + Member("b", std::string(600, 'y'));
  EXPECT_THAT(ReadTar(archive.substr(0, 1300)).status().message(), HasSubstr("at byte 1024: it is cut off"));
  EXPECT_THAT(ReadTar(archive.substr(0, 2000)).status().message(),
              HasSubstr("at byte 1024: a file is longer than the archive"));
  archive[1024] ^= 1;
  EXPECT_THAT(ReadTar(archive).status().message(), HasSubstr("at byte 1024: this is not a header"));
  EXPECT_THAT(ReadTar(Pax("size", "18446744073709551615") + Member("b", "y")).status().message(),
              HasSubstr("longer than the archive"));
  EXPECT_THAT(ReadTar(Member("p", "99 path=x\n", 'x')).status().message(), HasSubstr("pax header is damaged"));
  EXPECT_TRUE(absl::IsUnimplemented(ReadTar(Member("s", "", 'S')).status()));
}

}  // namespace
}  // namespace composer
