// The hand-written patterns beside PCRE2, over random texts.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include <random>

#include "data/text/characters.h"
#include "data/text/regex.h"
#include "data/tokenizers/split/gpt_pattern.h"
#include "data/tokenizers/split/match_splitter.h"

namespace composer {
namespace {

std::vector<TextSpan> Pieces(const PreTokenizer& splitter, absl::string_view text) {
  const auto size = static_cast<uint32_t>(text.size());
  SplitText split{AlignedText(text, {0, size}, false), {{0, size}}};
  splitter.Apply(split);
  return split.pieces;
}

// A text that has what the patterns ask for, and characters of all kinds that Unicode 14 (PCRE2's) knows.
std::string RandomText(std::mt19937& random) {
  static const char* const kParts[] = {
      "'s",   "'LL",      "'\xc5\xbf", "'Re",          " ", "  ", "\n",  "\r\n",     "\t",           "12345", "a",
      "Word", "\xc3\xa9", "\xcc\x81",  "\xe4\xb8\xad", "!", "/",  "...", "\xc2\xa0", "\xe3\x80\x80", "iOS"};
  std::string text;
  for (size_t i = random() % 20; i > 0; --i) {
    if (random() % 3 != 0) {
      text += kParts[random() % std::size(kParts)];
    } else {
      const char32_t point = random() % 4 == 0 ? random() % 0x3000 : random() % 0x250;
      UVersionInfo age;
      u_charAge(static_cast<UChar32>(point), age);
      // PCRE2 10.42 takes U+180E, which has not been white space since Unicode 6.3, for such.
      if (point > 0 && age[0] <= 14 && point != 0x180e) AppendUtf8(point, text);
    }
  }
  return text;
}

struct NamedPattern {
  const char* name;
  const char* regex;
};

class GptPatternTest : public ::testing::TestWithParam<NamedPattern> {};

TEST_P(GptPatternTest, CutsAsPcre2Does) {
  const GptPattern pattern = PatternOfName(GetParam().name).value();
  EXPECT_EQ(KnownPattern(GetParam().regex), pattern);
  const auto regex = Regex::Compile(GetParam().regex);
  ASSERT_TRUE(regex.ok()) << regex.status();
  const PreTokenizerPtr by_hand = MakeGptSplitter(pattern);
  const PreTokenizerPtr by_regex = MakeMatchSplitter(FindRegex(*regex), MatchBehavior::kIsolated);
  std::mt19937 random(18);
  for (int i = 0; i < 40000; ++i) {
    const std::string text = RandomText(random);
    ASSERT_EQ(Pieces(*by_hand, text), Pieces(*by_regex, text)) << testing::PrintToString(text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GptPatternTest,
    ::testing::Values(
        NamedPattern{"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
        NamedPattern{"cl100k",
                     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
        NamedPattern{"qwen2",
                     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[)"
                     R"(\r\n]+|\s+(?!\S)|\s+)"},
        NamedPattern{"o200k",
                     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|)"
                     R"('ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M})"
                     R"(]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S))"
                     R"(|\s+)"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Patterns, AnUnknownNameIsAnError) {
  EXPECT_THAT(PatternOfName("gpt5").status().message(), testing::HasSubstr("gpt2, cl100k, qwen2 or o200k"));
  EXPECT_FALSE(Regex::Compile("[a-z&&[^x]]").ok());
  EXPECT_THAT(Regex::Compile("(a").status().message(), testing::HasSubstr("(a"));
}

std::vector<std::string> Cut(MatchBehavior behavior, bool inverted) {
  const std::string text = "--a-b--";
  std::vector<std::string> pieces;
  for (const TextSpan span : Pieces(*MakeMatchSplitter(FindLiteral("-"), behavior, inverted), text))
    pieces.push_back(text.substr(span.begin, span.end - span.begin));
  return pieces;
}

TEST(MatchSplitter, HasTheBehavioursOfTokenizers) {
  using testing::ElementsAre;
  EXPECT_THAT(Cut(MatchBehavior::kRemoved, false), ElementsAre("a", "b"));
  EXPECT_THAT(Cut(MatchBehavior::kRemoved, true), ElementsAre("-", "-", "-", "-", "-"));
  EXPECT_THAT(Cut(MatchBehavior::kIsolated, false), ElementsAre("-", "-", "a", "-", "b", "-", "-"));
  EXPECT_THAT(Cut(MatchBehavior::kMergedWithPrevious, false), ElementsAre("-", "-", "a-", "b-", "-"));
  EXPECT_THAT(Cut(MatchBehavior::kMergedWithNext, false), ElementsAre("-", "-a", "-b", "-", "-"));
  EXPECT_THAT(Cut(MatchBehavior::kContiguous, false), ElementsAre("--", "a", "-", "b", "--"));
}

}  // namespace
}  // namespace composer
