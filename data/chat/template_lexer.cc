// SPDX-License-Identifier: Apache-2.0
#include "data/chat/template_lexer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace composer {
namespace {

absl::Status BadTemplate(int64_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

// Reads a quoted text from `at`, which is behind the quote, and moves behind its end.
absl::StatusOr<std::string> ReadQuoted(absl::string_view text, char quote, size_t& at, int64_t line) {
  std::string value;
  while (at < text.size() && text[at] != quote) {
    char c = text[at++];
    if (c == '\\' && at < text.size()) {
      c = text[at++];
      switch (c) {
        case 'n':
          c = '\n';
          break;
        case 't':
          c = '\t';
          break;
        case 'r':
          c = '\r';
          break;
        case '\\':
        case '\'':
        case '"':
          break;
        default:
          return BadTemplate(line, absl::StrCat("\\", std::string(1, c), " in a text is not supported"));
      }
    }
    value += c;
  }
  if (at >= text.size()) return BadTemplate(line, "a text has no end");
  ++at;
  return value;
}

TemplateWord ReadNumber(absl::string_view text, size_t& at) {
  const size_t begin = at;
  while (at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]))) ++at;
  TemplateWord word{TemplateWord::Kind::kInt, ""};
  if (at + 1 < text.size() && text[at] == '.' && absl::ascii_isdigit(static_cast<unsigned char>(text[at + 1]))) {
    word.kind = TemplateWord::Kind::kFloat;
    ++at;
    while (at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]))) ++at;
  }
  word.text = std::string(text.substr(begin, at - begin));
  return word;
}

bool IsNameCharacter(char c) { return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// Reads one tag's words from `at` up to its end ("}}" or "%}", with an optional `-` or `+` in front), and moves behind
// it. `strips`: the spaces that follow are removed.
class TagReader {
 public:
  TagReader(absl::string_view text, size_t& at, int64_t line) : text_(text), at_(at), line_(line) {}

  absl::Status Read(absl::string_view end, std::vector<TemplateWord>& words, char& sign) {
    while (true) {
      while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
      if (at_ >= text_.size()) return BadTemplate(line_, absl::StrCat("a tag has no end `", end, "`"));
      if (AtEnd(end, sign) && open_ == 0) break;
      RETURN_IF_ERROR(ReadWord(words));
    }
    words.push_back({});
    return absl::OkStatus();
  }

 private:
  bool AtEnd(absl::string_view end, char& sign) {
    const char c = text_[at_];
    const bool has_sign = c == '-' || c == '+';
    if (!absl::StartsWith(text_.substr(at_ + (has_sign ? 1 : 0)), end)) return false;
    if (open_ > 0) return false;
    sign = has_sign ? c : ' ';
    at_ += end.size() + (has_sign ? 1 : 0);
    return true;
  }

  absl::Status ReadWord(std::vector<TemplateWord>& words) {
    const char c = text_[at_];
    if (c == '\'' || c == '"') {
      ++at_;
      ASSIGN_OR_RETURN(std::string value, ReadQuoted(text_, c, at_, line_));
      words.push_back({TemplateWord::Kind::kText, std::move(value)});
      return absl::OkStatus();
    }
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      words.push_back(ReadNumber(text_, at_));
      return absl::OkStatus();
    }
    if (IsNameCharacter(c)) {
      const size_t begin = at_;
      while (at_ < text_.size() && IsNameCharacter(text_[at_])) ++at_;
      words.push_back({TemplateWord::Kind::kName, std::string(text_.substr(begin, at_ - begin))});
      return absl::OkStatus();
    }
    for (const absl::string_view sign : {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "|",
                                         "(",  ")",  "[",  "]",  "{",  "}",  ".", ",", ":", "<", ">", "="}) {
      if (!absl::StartsWith(text_.substr(at_), sign)) continue;
      open_ += sign == "{" || sign == "[" || sign == "(" ? 1 : sign == "}" || sign == "]" || sign == ")" ? -1 : 0;
      if (open_ < 0) return BadTemplate(line_, absl::StrCat("`", sign, "` has no beginning"));
      words.push_back({TemplateWord::Kind::kSign, std::string(sign)});
      at_ += sign.size();
      return absl::OkStatus();
    }
    return BadTemplate(line_, absl::StrCat("`", std::string(1, c), "` has no meaning in a tag"));
  }

  absl::string_view text_;
  size_t& at_;
  int64_t line_;
  int64_t open_ = 0;  // brackets
};

}  // namespace

absl::StatusOr<std::vector<TemplatePiece>> CutTemplate(absl::string_view source) {
  const std::string unix_lines = absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
  absl::string_view text = unix_lines;
  absl::ConsumeSuffix(&text, "\n");
  std::vector<TemplatePiece> pieces;
  size_t at = 0;
  int64_t line = 1;
  bool line_begins = true;  // only spaces stand between the beginning of a line and `at`
  while (at < text.size()) {
    size_t tag = at;
    while (tag < text.size() && !(text[tag] == '{' && tag + 1 < text.size() &&
                                  (text[tag + 1] == '{' || text[tag + 1] == '%' || text[tag + 1] == '#')))
      ++tag;
    absl::string_view before = text.substr(at, tag - at);
    line += std::count(before.begin(), before.end(), '\n');
    if (tag == text.size()) {
      if (!before.empty()) pieces.push_back({TemplatePiece::Kind::kText, std::string(before), {}, line});
      break;
    }
    const char kind = text[tag + 1];
    size_t inside = tag + 2;
    const char begin_sign = inside < text.size() ? text[inside] : ' ';
    if (begin_sign == '-' || (begin_sign == '+' && kind != '{')) ++inside;
    if (begin_sign == '-') {
      before = absl::StripTrailingAsciiWhitespace(before);
    } else if (begin_sign != '+' && kind != '{') {
      const size_t line_begin = before.rfind('\n') == absl::string_view::npos ? 0 : before.rfind('\n') + 1;
      const bool only_spaces = before.substr(line_begin).find_first_not_of(" \t") == absl::string_view::npos;
      if (only_spaces && (line_begin > 0 || line_begins)) before = before.substr(0, line_begin);
    }
    if (!before.empty()) pieces.push_back({TemplatePiece::Kind::kText, std::string(before), {}, line});
    char end_sign = ' ';
    if (kind == '#') {
      const size_t end = text.find("#}", inside);
      if (end == absl::string_view::npos) return BadTemplate(line, "a comment has no end `#}`");
      end_sign = end > inside ? text[end - 1] : ' ';
      at = end + 2;
    } else {
      TemplatePiece piece{kind == '{' ? TemplatePiece::Kind::kOutput : TemplatePiece::Kind::kStatement, "", {}, line};
      at = inside;
      RETURN_IF_ERROR(TagReader(text, at, line).Read(kind == '{' ? "}}" : "%}", piece.words, end_sign));
      pieces.push_back(std::move(piece));
    }
    line += std::count(text.begin() + static_cast<std::ptrdiff_t>(tag), text.begin() + static_cast<std::ptrdiff_t>(at),
                       '\n');
    line_begins = false;
    if (end_sign == '-') {
      while (at < text.size() && absl::ascii_isspace(static_cast<unsigned char>(text[at]))) {
        line_begins = text[at] == '\n';
        line += text[at++] == '\n' ? 1 : 0;
      }
    } else if (end_sign != '+' && kind != '{' && at < text.size() && text[at] == '\n') {
      line_begins = true;
      ++line;
      ++at;
    }
  }
  return pieces;
}

}  // namespace composer
