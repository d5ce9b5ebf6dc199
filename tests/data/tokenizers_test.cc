// Tokenizers beside the real packages (tools/make_tokenizer_goldens.py).
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "data/tokenizers/files/tokenizer_files.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFolder = "tests/golden/tokenizers/";

const nlohmann::json& Goldens() {
  static const auto* const json =
      new nlohmann::json(nlohmann::json::parse(ReadFile(kFolder + "values.json").value())["cases"]);
  return *json;
}

std::unique_ptr<TextTokenizer> Open(const std::string& name) {
  auto tokenizer = OpenTokenizer(kFolder + name);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

class TokenizerGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, TokensSpansAndTextsAreThePackages) {
  const auto tokenizer = Open(GetParam());
  const nlohmann::json& cases = Goldens()[GetParam()];
  ASSERT_GT(cases.size(), 30u);
  for (int round = 0; round < 2; ++round) {  // the second time out of the cache
    for (const auto& golden : cases) {
      const std::string text = golden["text"];
      const EncodedText plain = tokenizer->Encode(text, {.add_special_tokens = false, .spans = true}).value();
      EXPECT_EQ(nlohmann::json(plain.ids), golden["ids"]) << golden["text"];
      EXPECT_EQ(tokenizer->Encode(text, {.add_special_tokens = false}).value().ids, plain.ids);
      nlohmann::json spans = nlohmann::json::array();
      for (const TextSpan span : plain.spans) spans.push_back({span.begin, span.end});
      if (golden.contains("spans")) EXPECT_EQ(spans, golden["spans"]) << golden["text"];
      if (golden.contains("special")) EXPECT_EQ(nlohmann::json(tokenizer->Encode(text).value().ids), golden["special"]);
      EXPECT_EQ(tokenizer->Decode(plain.ids, false), golden["decoded"].get<std::string>()) << golden["text"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden,
                         ::testing::Values("bytes", "split", "wordpiece", "word_end", "unigram", "llama", "sp_bpe",
                                           "sp_unigram"));

TEST(TextTokenizer, ATextIsCutBetweenItsSpecialTokens) {
  const auto tokenizer = Open("wordpiece");
  const std::vector<int64_t> whole = tokenizer->Encode("the launcher starts the workers").value().ids;
  const EncodedText cut =
      tokenizer->Encode("the launcher starts the workers", {.spans = true, .max_length = 4}).value();
  EXPECT_THAT(cut.ids, ElementsAre(2, whole[1], whole[2], 3));
  EXPECT_EQ(cut.spans.size(), 4u);
  EXPECT_EQ(cut.spans[1], (TextSpan{0, 3}));
  EXPECT_EQ(tokenizer->Encode("the", {.max_length = 2}).value().ids.size(), 2u);
  EXPECT_THAT(tokenizer->Encode("the", {.max_length = 1}).status().message(), HasSubstr("2 special tokens"));
  EXPECT_EQ(tokenizer->Decode(whole), "the launcher starts the workers");
  EXPECT_EQ(tokenizer->Decode({-1, 1 << 20, whole[1]}), "the");
}

TEST(TextTokenizer, AnyBytesAreAText) {
  const auto tokenizer = Open("bytes");
  const std::string text = "a\xff\xc3";
  const EncodedText encoded = tokenizer->Encode(text, {.spans = true}).value();
  EXPECT_EQ(tokenizer->Decode(encoded.ids), "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(encoded.spans.front(), (TextSpan{0, 1}));
  EXPECT_EQ(encoded.spans[1], (TextSpan{1, 2}));
  EXPECT_EQ(encoded.spans.back(), (TextSpan{2, 3}));
}

TEST(TextTokenizer, AWordWithoutEndTakesNoSquareOfTime) {
  const auto tokenizer = Open("bytes");
  std::string text;
  for (int i = 0; i < 400000; ++i) text += static_cast<char>('a' + int64_t{i} * i % 26);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text).value().ids), text);
}

TEST(TextTokenizer, ThreadsShareIt) {
  const auto tokenizer = Open("split");
  const std::string text = Goldens()["split"][20]["text"];
  const std::vector<int64_t> ids = tokenizer->Encode(text).value().ids;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) EXPECT_EQ(tokenizer->Encode(text).value().ids, ids);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace composer
