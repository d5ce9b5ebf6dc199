// The files of tokenizers: each kind, and what is wrong with them.
// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/files/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/text/utf8_repair.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json TokenizerJson(const std::string& name) {
  return json::parse(ReadFile("tests/golden/tokenizers/" + name + "/tokenizer.json").value());
}

std::string ErrorOf(const json& tokenizer) {
  const auto parts = ParseTokenizerJson(tokenizer.dump());
  return parts.ok() ? "" : std::string(parts.status().message());
}

TEST(TokenizerJson, WhatIsNotSupportedIsNamed) {
  json with = TokenizerJson("bytes");
  EXPECT_EQ(ErrorOf(with), "");
  with["post_processor"]["whatever"] = 1;
  EXPECT_EQ(ErrorOf(with), "post_processor.whatever: is not supported");
  with = TokenizerJson("unigram");
  with["normalizer"]["normalizers"][1]["type"] = "Magic";
  EXPECT_THAT(ErrorOf(with), HasSubstr("normalizer.normalizers[1].type: `Magic` is not supported; NFC, "));
  with = TokenizerJson("split");
  with["pre_tokenizer"]["pretokenizers"].push_back({{"type", "Whitespace"}});
  EXPECT_THAT(ErrorOf(with), HasSubstr("pre_tokenizer.pretokenizers[2]: a step after ByteLevel"));
  with = TokenizerJson("bytes");
  with["model"]["dropout"] = 0.1;
  EXPECT_EQ(ErrorOf(with), "model.dropout: is not supported");
  with = TokenizerJson("bytes");
  with["model"]["merges"][3] = "one";
  EXPECT_THAT(ErrorOf(with), HasSubstr("model.merges[3]: must be two tokens"));
  with["model"]["merges"][3] = "nothing there";
  EXPECT_THAT(ErrorOf(with), HasSubstr("merges[3]: `nothing there`: a part or the whole is not in the vocabulary"));
  with = TokenizerJson("bytes");
  with["decoder"] = nullptr;
  EXPECT_THAT(ErrorOf(with), HasSubstr("decoder: "));
  std::string deep = R"({"type": "NFC"})";
  std::string closing;
  for (int i = 0; i < 20000; ++i) closing += "]}";
  std::string opening;
  for (int i = 0; i < 20000; ++i) opening += R"({"type":"Sequence","normalizers":[)";
  deep = opening + deep + closing;
  EXPECT_THAT(ParseTokenizerJson(R"({"normalizer":)" + deep + "}").status().message(), HasSubstr("nested too deeply"));
  EXPECT_EQ(ErrorOf(json::object()), "model: is missing");
  EXPECT_EQ(ParseTokenizerJson("{").status().message(), "this is not JSON");
}

TEST(TokenizerJson, NumbersOutsideOfTheVocabularyAreNamed) {
  json with = TokenizerJson("split");
  with["model"]["vocab"]["x1"] = 4294967295U;
  EXPECT_THAT(ErrorOf(with), HasSubstr("the number of `x1` is 4294967295"));
  with = TokenizerJson("split");
  with["model"]["vocab"]["x1"] = 7;
  EXPECT_THAT(ErrorOf(with), HasSubstr("have the same number, 7"));
  with = TokenizerJson("wordpiece");
  with["post_processor"]["cls"][1] = 12345;
  EXPECT_THAT(TextTokenizer::Create(*ParseTokenizerJson(with.dump())).status().message(),
              HasSubstr("special token 12345 is not in the vocabulary"));
}

TEST(TokenizerFiles, EachKindIsFoundInAFolder) {
  TempDir folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    EXPECT_TRUE(AtomicWriteFile(folder.Path(name), text).ok());
  };
  EXPECT_THAT(OpenTokenizer(folder.Path("")).status().message(), HasSubstr("has no tokenizer.json"));
  write("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "\u0120": 3, "<|endoftext|>": 4})");
  EXPECT_THAT(OpenTokenizer(folder.Path("")).status().message(), HasSubstr("merges.txt"));
  write("merges.txt", "#version: 0.2\na b\n");
  auto tokenizer = OpenTokenizer(folder.Path(""));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("ab ba<|endoftext|>").value().ids, ElementsAre(2, 3, 1, 0, 4));
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##do\nthe\n");
  write("tokenizer_config.json", R"({"do_lower_case": true, "pad_token": "[PAD]", "padding_side": "left"})");
  tokenizer = OpenTokenizer(folder.Path(""));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("UNDO the x").value().ids, ElementsAre(2, 5, 6, 7, 1, 3));
  EXPECT_TRUE((*tokenizer)->parts().pads_left);
  write("tokenizer_config.json", R"({"mask_token": {"content": "<mask>"}})");
  EXPECT_THAT(OpenTokenizer(folder.Path("")).status().message(), HasSubstr("mask_token: `<mask>` is not in the voc"));
  EXPECT_THAT(OpenTokenizer(folder.Path("merges.bin")).status().message(), HasSubstr("merges.bin"));
}

TEST(Tiktoken, RanksAreMerges) {
  // a, b, c, bc, ab, abc: bc has the lower rank.
  const auto parts = ParseTiktoken("YQ== 0\nYg== 1\nYw== 2\nYmM= 3\nYWI= 4\nYWJj 5\n", GptPattern::kGpt2, {"<s>"});
  ASSERT_TRUE(parts.ok()) << parts.status();
  const auto tokenizer = TextTokenizer::Create(
      *ParseTiktoken("YQ== 0\nYg== 1\nYw== 2\nYmM= 3\nYWI= 4\nYWJj 5\n", GptPattern::kGpt2, {"<s>"}));
  EXPECT_THAT((*tokenizer)->Encode("abc<s>aabc").value().ids, ElementsAre(5, 6, 0, 5));
  EXPECT_THAT(ParseTiktoken("YQ== x\n", GptPattern::kGpt2, {}).status().message(), HasSubstr("`YQ== x`"));
}

TEST(SentencePieceFile, DamageIsAnErrorAndNoCrash) {
  const std::string bytes = ReadFile("tests/golden/tokenizers/sp_unigram/tokenizer.model").value();
  ASSERT_TRUE(ParseSentencePiece(bytes).ok());
  EXPECT_FALSE(ParseSentencePiece("").ok());
  EXPECT_FALSE(ParseSentencePiece("tokenizer").ok());
  for (size_t size = 1; size < bytes.size(); size += 97) {
    auto parts = ParseSentencePiece(bytes.substr(0, size));
    if (parts.ok()) (void)TextTokenizer::Create(*std::move(parts));
  }
}

TEST(Utf8, RepairReplacesEachLongestPart) {
  EXPECT_TRUE(IsUtf8("a\xc3\xa9\xf0\x9f\x99\x82 and much more of it"));
  EXPECT_FALSE(IsUtf8("\xed\xa0\x80"));
  EXPECT_EQ(RepairUtf8("\xf0\x9f\x99z\xc0\x80"), "\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace composer
