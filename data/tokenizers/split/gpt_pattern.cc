// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/split/gpt_pattern.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "data/text/characters.h"

namespace composer {
namespace {

constexpr uint16_t kNotOther = char_is::kSpace | char_is::kLetter | char_is::kNumber;
constexpr uint16_t kUpperRun = char_is::kUpper | char_is::kOtherLetter | char_is::kMark;
constexpr uint16_t kLowerRun = char_is::kLower | char_is::kOtherLetter | char_is::kMark;

// A place in a piece of text.
class Scanner {
 public:
  Scanner(absl::string_view text, const CharTable& table) : text_(text), table_(table), ascii_(table.first_block()) {}
  size_t size() const { return text_.size(); }
  char operator[](size_t at) const { return text_[at]; }

  // Returns the properties of the character at `at` < size(), and its length in bytes.
  uint16_t At(size_t at, uint32_t& length) const {
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) {
      length = 1;
      return ascii_[byte];
    }
    return AtWide(at, length);
  }
  uint16_t At(size_t at) const {
    uint32_t length = 0;
    return At(at, length);
  }
  // Returns the end of the characters from `at` on that have one of these properties.
  size_t RunOf(uint16_t properties, size_t at) const {
    return RunWhile(at, [properties](uint16_t found) { return (found & properties) != 0; });
  }
  // Of those that are neither space, letter nor number.
  size_t RunOfOthers(size_t at) const {
    return RunWhile(at, [](uint16_t found) { return (found & kNotOther) == 0; });
  }
  // Returns the end of at most `most` numbers.
  size_t Numbers(size_t at, int most) const {
    uint32_t length = 0;
    for (int i = 0; i < most && at < size() && (At(at, length) & char_is::kNumber) != 0; ++i) at += length;
    return at;
  }
  // Returns the end of `'s`, `'re`, … at `at`, or `at`.
  template <bool kAnyCase>
  size_t Contraction(size_t at) const {
    if (size() - at < 2 || text_[at] != '\'') return at;
    const auto letter = [&](size_t i) { return i < size() ? Lower<kAnyCase>(text_[i]) : '\0'; };
    const char first = letter(at + 1), second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if (kAnyCase && text_.substr(at + 1, 2) == "\xc5\xbf") return at + 3;  // the long s
    const bool is_long =
        (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return is_long ? at + 3 : at;
  }
  // Returns the end of \s+(?!\S)|\s+ at `at`, where there is a space.
  size_t Spaces(size_t at) const {
    const size_t end = RunOf(char_is::kSpace, at);
    if (end == size()) return end;
    const size_t last = end - CodePointBefore(text_, end).length;
    return last > at ? last : end;
  }
  // Returns the end of \s*[\r\n]+|\s+(?!\S)|\s+ at `at`, where there is a space.
  size_t SpacesToLineEnd(size_t at) const {
    size_t end = at, after_line = at;
    uint32_t length = 0;
    while (end < size()) {
      const uint16_t properties = At(end, length);
      if ((properties & char_is::kSpace) == 0) break;
      end += length;
      if ((properties & char_is::kLineEnd) != 0) after_line = end;
    }
    if (after_line > at) return after_line;
    if (end == size()) return end;
    const size_t last = end - CodePointBefore(text_, end).length;
    return last > at ? last : end;
  }

 private:
  // Most characters are ASCII: the loop over them is by itself.
  template <typename Belongs>
  size_t RunWhile(size_t at, Belongs belongs) const {
    while (at < size()) {
      const auto byte = static_cast<unsigned char>(text_[at]);
      uint32_t length = 1;
      if (!belongs(byte < 0x80 ? ascii_[byte] : AtWide(at, length))) break;
      at += length;
    }
    return at;
  }
  ABSL_ATTRIBUTE_NOINLINE uint16_t AtWide(size_t at, uint32_t& length) const {
    const CodePoint c = CodePointAt(text_, at);
    length = c.length;
    return table_[c.value];
  }
  template <bool kAnyCase>
  static char Lower(char c) {
    return kAnyCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  const absl::string_view text_;
  const CharTable& table_;
  const uint16_t* const ascii_;
};

size_t NextGpt2(const Scanner& text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t end = text.Contraction<false>(at); end > at) return end;
  }
  uint32_t length = 0;
  uint16_t properties = text.At(at, length);
  size_t next = at + length;
  if (text[at] == ' ' && next < text.size()) {
    const uint16_t second = text.At(next, length);
    if ((second & char_is::kSpace) == 0) {
      properties = second;
      next += length;
    }
  }
  if ((properties & char_is::kLetter) != 0) return text.RunOf(char_is::kLetter, next);
  if ((properties & char_is::kNumber) != 0) return text.RunOf(char_is::kNumber, next);
  if ((properties & char_is::kSpace) == 0) return text.RunOfOthers(next);
  return text.Spaces(at);
}

// What cl100k and o200k have in common behind their words.
size_t NextNoWord(const Scanner& text, size_t at, uint16_t properties, int numbers, bool slashes) {
  if ((properties & char_is::kNumber) != 0) return text.Numbers(at, numbers);
  size_t other = at;
  if (text[at] == ' ') other += 1;
  if (other < text.size() && (text.At(other) & kNotOther) == 0) {
    size_t end = text.RunOfOthers(other);
    while (end < text.size() && (text[end] == '\n' || text[end] == '\r' || (slashes && text[end] == '/'))) ++end;
    return end;
  }
  return text.SpacesToLineEnd(at);
}

template <int kNumbers>
size_t NextCl100k(const Scanner& text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t end = text.Contraction<true>(at); end > at) return end;
  }
  uint32_t length = 0;
  const uint16_t properties = text.At(at, length);
  if ((properties & char_is::kLetter) != 0) return text.RunOf(char_is::kLetter, at + length);
  if ((properties & (char_is::kLineEnd | char_is::kNumber)) == 0 && at + length < text.size()) {
    uint32_t second = 0;
    if ((text.At(at + length, second) & char_is::kLetter) != 0)
      return text.RunOf(char_is::kLetter, at + length + second);
  }
  return NextNoWord(text, at, properties, kNumbers, false);
}

// Returns the end of the longest [upper]*[lower]+ that backtracking finds first at `at`, or `at`.
size_t CasedWord(const Scanner& text, size_t at) {
  size_t end = at, lower = 0;  // where the last character that may be lower begins, + 1; 0: none
  uint32_t length = 0;
  uint16_t properties = 0;
  while (end < text.size() && ((properties = text.At(end, length)) & kUpperRun) != 0) {
    if ((properties & kLowerRun) != 0) lower = end + 1;
    end += length;
  }
  if (end < text.size() && (properties & kLowerRun) != 0 && (properties & kUpperRun) == 0)
    return text.RunOf(kLowerRun, end);
  return lower == 0 ? at : text.RunOf(kLowerRun, lower - 1);
}

size_t NextO200k(const Scanner& text, size_t at) {
  uint32_t length = 0;
  const uint16_t properties = text.At(at, length);
  const bool may_lead = (properties & (char_is::kLineEnd | char_is::kLetter | char_is::kNumber)) == 0;
  const size_t after = at + length;
  size_t end = at;
  if (may_lead && after < text.size()) {
    end = CasedWord(text, after);
    if (end == after) end = at;
  }
  if (end == at) end = CasedWord(text, at);
  if (end == at && may_lead) {
    end = text.RunOf(kUpperRun, after);
    if (end == after) end = at;
  }
  if (end == at) end = text.RunOf(kUpperRun, at);
  if (end > at) return end < text.size() ? text.Contraction<true>(end) : end;
  return NextNoWord(text, at, properties, 3, true);
}

template <size_t (*kNext)(const Scanner&, size_t)>
class GptSplitter final : public PieceSplitter {
 protected:
  void Cut(absl::string_view piece, uint32_t at, std::vector<TextSpan>& parts) const override {
    const Scanner scanner(piece, table_);
    for (size_t begin = 0; begin < piece.size();) {
      const size_t end = kNext(scanner, begin);
      parts.push_back({at + static_cast<uint32_t>(begin), at + static_cast<uint32_t>(end)});
      begin = end;
    }
  }

 private:
  const CharTable& table_ = CharTable::Get();
};

constexpr absl::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kCl100k =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[)"
    R"(\r\n]+|\s+(?!\S)|\s+)";
constexpr absl::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|)"
    R"('ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M})"
    R"(]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S))"
    R"(|\s+)";

// Other ways to write the same.
constexpr std::pair<absl::string_view, GptPattern> kPatterns[] = {
    {kGpt2, GptPattern::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", GptPattern::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)", GptPattern::kGpt2},
    {kCl100k, GptPattern::kCl100k},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\)"
     R"(s++$|\s*[\r\n]|\s+(?!\S)|\s)",
     GptPattern::kCl100k},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[)"
     R"(\r\n]|\s+(?!\S)|\s+)",
     GptPattern::kCl100k},
    {kQwen2, GptPattern::kQwen2},
    {kO200k, GptPattern::kO200k},
};

}  // namespace

std::optional<GptPattern> KnownPattern(absl::string_view regex) {
  for (const auto& [text, pattern] : kPatterns) {
    if (text == regex) return pattern;
  }
  return std::nullopt;
}

absl::StatusOr<GptPattern> PatternOfName(absl::string_view name) {
  constexpr std::pair<absl::string_view, GptPattern> kNames[] = {{"gpt2", GptPattern::kGpt2},
                                                                 {"cl100k", GptPattern::kCl100k},
                                                                 {"qwen2", GptPattern::kQwen2},
                                                                 {"o200k", GptPattern::kO200k}};
  for (const auto& [known, pattern] : kNames) {
    if (known == name) return pattern;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("pattern: `", name.substr(0, 100), "` must be gpt2, cl100k, qwen2 or o200k"));
}

PreTokenizerPtr MakeGptSplitter(GptPattern pattern) {
  switch (pattern) {
    case GptPattern::kGpt2:
      return std::make_unique<GptSplitter<NextGpt2>>();
    case GptPattern::kCl100k:
      return std::make_unique<GptSplitter<NextCl100k<3>>>();
    case GptPattern::kQwen2:
      return std::make_unique<GptSplitter<NextCl100k<1>>>();
    case GptPattern::kO200k:
      return std::make_unique<GptSplitter<NextO200k>>();
  }
  return nullptr;
}

}  // namespace composer
