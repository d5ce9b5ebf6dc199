// SPDX-License-Identifier: Apache-2.0
#include "data/icl/answer_match.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/icl/icl_task.h"
#include "data/text/characters.h"

namespace composer {
namespace {

bool IsMark(const CodePoint& c) {
  if (c.value < 0x80) return absl::ascii_ispunct(static_cast<unsigned char>(c.value));
  return c.value == U'\u2018' || c.value == U'\u2019' || c.value == U'\u00b4';
}

// Python's \w, apart from the underscore.
bool IsOfWord(char32_t c) { return (CharTable::Get()[c] & (char_is::kLetter | char_is::kNumber)) != 0; }

bool IsArticle(absl::string_view word) { return word == "a" || word == "an" || word == "the"; }

std::string Lowercased(absl::string_view text) {
  std::string lower;
  icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())})
      .toLower(icu::Locale::getRoot())
      .toUTF8String(lower);
  return lower;
}

// Every mark becomes a space.
std::string WithoutMarks(absl::string_view text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    absl::StrAppend(&kept, IsMark(c) ? absl::string_view(" ") : text.substr(at, c.length));
    at += c.length;
  }
  return kept;
}

// An article is a longest run of letters and digits; a space takes its place.
std::string WithoutArticles(absl::string_view text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsOfWord(CodePointAt(text, end).value)) end += CodePointAt(text, end).length;
    const absl::string_view word = text.substr(at, end - at);
    absl::StrAppend(&kept, IsArticle(word) ? absl::string_view(" ") : word);
    const size_t length = end < text.size() ? CodePointAt(text, end).length : 0;
    absl::StrAppend(&kept, text.substr(end, length));
    at = end + length;
  }
  return kept;
}

}  // namespace

std::vector<absl::string_view> WordsOf(absl::string_view text) {
  std::vector<absl::string_view> words;
  for (absl::string_view rest = StripText(text); !rest.empty(); rest = StripText(rest)) {
    size_t end = 0;
    while (end < rest.size() && !IsPythonSpace(CodePointAt(rest, end).value)) end += CodePointAt(rest, end).length;
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return words;
}

absl::string_view AnswerIn(absl::string_view text, const AnswerMatchOptions& options) {
  size_t end = text.size();
  for (const std::string& stop : options.early_stopping_criteria) end = std::min(end, text.find(stop));
  text = text.substr(0, end);
  if (options.cot_delimiter.empty()) return text;
  const size_t last = text.rfind(options.cot_delimiter);
  return last == absl::string_view::npos ? text : text.substr(last + options.cot_delimiter.size());
}

std::string NormalizedAnswer(absl::string_view text) {
  return absl::StrJoin(WordsOf(WithoutArticles(WithoutMarks(Lowercased(text)))), " ");
}

bool IsRightAnswer(absl::string_view text, const std::vector<std::string>& answers, const AnswerMatchOptions& options) {
  const auto clean = [&](absl::string_view each) {
    return options.do_normalization ? NormalizedAnswer(each) : std::string(StripText(each));
  };
  const std::string said = clean(AnswerIn(text, options));
  return std::any_of(answers.begin(), answers.end(),
                     [&](const std::string& answer) { return absl::StartsWith(said, clean(answer)); });
}

}  // namespace composer
