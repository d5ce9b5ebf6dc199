// SPDX-License-Identifier: Apache-2.0
#include "data/text/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/format/little_endian.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::HasSubstr;

// As Megatron-LM's IndexedDatasetBuilder writes it.
std::string IndexText(uint8_t type, int64_t width, const std::vector<int32_t>& lengths) {
  std::string text("MMIDIDX\0\0", 9);
  AppendNumber(uint64_t{1}, text);
  text.push_back(static_cast<char>(type));
  AppendNumber(static_cast<uint64_t>(lengths.size()), text);
  AppendNumber(static_cast<uint64_t>(lengths.size() + 1), text);
  for (const int32_t length : lengths) AppendNumber(length, text);
  int64_t pointer = 0;
  for (const int32_t length : lengths) {
    AppendNumber(pointer, text);
    pointer += length * width;
  }
  for (size_t i = 0; i <= lengths.size(); ++i) AppendNumber(static_cast<int64_t>(i), text);
  return text;
}

TEST(MegatronIndex, SaysTypeAndNumberOfTokens) {
  const auto index = ReadMegatronIndex(IndexText(8, 2, {3, 0, 5}));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->type, TokenType::kUint16);
  EXPECT_EQ(index->sequences, 3);
  EXPECT_EQ(index->tokens, 8);
}

TEST(MegatronIndex, RefusesWhatIsNone) {
  const auto error = [](const std::string& text) { return std::string(ReadMegatronIndex(text).status().message()); };
  const std::string good = IndexText(4, 4, {3, 5});
  EXPECT_THAT(error(""), HasSubstr("not an index of Megatron"));
  EXPECT_THAT(error("x" + good), HasSubstr("not an index of Megatron"));
  EXPECT_THAT(error(IndexText(6, 8, {3})), HasSubstr("has the type 6"));
  EXPECT_THAT(error(good.substr(0, good.size() - 1)), HasSubstr("shorter than its numbers"));
  std::string many = good;
  many.replace(18, 8, std::string(8, '\xff'));
  EXPECT_THAT(error(many), HasSubstr("shorter than its numbers"));
  EXPECT_THAT(error(IndexText(4, 8, {3, 5})), HasSubstr("sequence 1 does not begin where"));
  EXPECT_THAT(error(IndexText(4, 4, {3, -5})), HasSubstr("sequence 1"));
}

TEST(TokenFile, TakesItsTypeFromTheIndexBesideIt) {
  const TempDir folder;
  const std::string path = folder.Path("x.bin");
  std::string tokens;
  for (const int32_t token : {7, 70'000, 3}) AppendNumber(token, tokens);
  ASSERT_TRUE(AtomicWriteFile(path, tokens).ok());
  EXPECT_EQ(OpenTokenFile(path, TokenType::kUint16)->size(), 6);
  ASSERT_TRUE(AtomicWriteFile(folder.Path("x.idx"), IndexText(4, 4, {1, 2})).ok());
  const auto file = OpenTokenFile(path, TokenType::kUint16);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 3);
  int64_t ids[3];
  CopyTokens(file->type, file->tokens.data(), 3, ids);
  EXPECT_EQ(ids[1], 70'000);
  EXPECT_THAT(std::string(CheckVocabulary(*file, 50'000).message()), HasSubstr("token 1 is 70000"));
  ASSERT_TRUE(AtomicWriteFile(folder.Path("x.idx"), IndexText(4, 4, {1, 3})).ok());
  EXPECT_THAT(std::string(OpenTokenFile(path, TokenType::kUint16).status().message()),
              testing::AllOf(HasSubstr("has 3 tokens, but its index"), HasSubstr("says 4")));
}

}  // namespace
}  // namespace composer
