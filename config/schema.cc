// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "config/keys/tables.h"

namespace composer {
namespace {

using Kind = ValueType::Kind;

std::vector<std::string> Words(absl::string_view text, char separator) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(text, separator)) {
    word = absl::StripAsciiWhitespace(word);
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

// Parses "1..9", "1..", "0<..1".
absl::Status ParseRange(absl::string_view text, ValueType& type) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return absl::OkStatus();
  const size_t dots = text.find("..");
  const auto bad = [&] { return absl::InvalidArgumentError(absl::StrCat("`", text, "` is not a range")); };
  if (dots == absl::string_view::npos) return bad();
  absl::string_view low = text.substr(0, dots), high = text.substr(dots + 2);
  type.above_min = absl::ConsumeSuffix(&low, "<");
  if (!low.empty() && !absl::SimpleAtod(low, &type.min)) return bad();
  if (!high.empty() && !absl::SimpleAtod(high, &type.max)) return bad();
  return absl::OkStatus();
}

absl::Status ParseTimeRules(absl::string_view text, ValueType& type) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&text, ">=0")) {
    type.min = 0;
  } else if (absl::ConsumePrefix(&text, ">0")) {
    type.min = 0;
    type.above_min = true;
  }
  type.words = Words(text, ',');
  return absl::OkStatus();
}

struct TypeName {
  absl::string_view name;
  Kind kind;
  enum class Rest { kNothing, kRange, kTime, kWords, kSection } rest;
};
// A name that is a prefix of another comes after it.
constexpr TypeName kTypes[] = {
    {"named list", Kind::kNamedList, TypeName::Rest::kSection},
    {"one of", Kind::kChoice, TypeName::Rest::kWords},
    {"bool", Kind::kBool, TypeName::Rest::kNothing},
    {"texts", Kind::kTexts, TypeName::Rest::kNothing},
    {"text", Kind::kText, TypeName::Rest::kRange},
    {"any", Kind::kAny, TypeName::Rest::kNothing},
    {"interval", Kind::kInterval, TypeName::Rest::kNothing},
    {"ints", Kind::kInts, TypeName::Rest::kRange},
    {"int", Kind::kInt, TypeName::Rest::kRange},
    {"numbers", Kind::kNumbers, TypeName::Rest::kRange},
    {"number", Kind::kNumber, TypeName::Rest::kRange},
    {"times", Kind::kTimes, TypeName::Rest::kTime},
    {"time", Kind::kTime, TypeName::Rest::kTime},
    {"list map", Kind::kMapList, TypeName::Rest::kSection},
    {"map", Kind::kMap, TypeName::Rest::kSection},
    {"named", Kind::kNamed, TypeName::Rest::kSection},
    {"names", Kind::kNames, TypeName::Rest::kSection},
};

absl::StatusOr<ValueType> ParseType(absl::string_view text) {
  for (const TypeName& row : kTypes) {
    absl::string_view rest = text;
    if (!absl::ConsumePrefix(&rest, row.name) || (!rest.empty() && rest[0] != ' ')) continue;
    ValueType type;
    type.kind = row.kind;
    rest = absl::StripAsciiWhitespace(rest);
    if (row.rest == TypeName::Rest::kRange) RETURN_IF_ERROR(ParseRange(rest, type));
    if (row.rest == TypeName::Rest::kTime) RETURN_IF_ERROR(ParseTimeRules(rest, type));
    if (row.rest == TypeName::Rest::kWords) type.words = Words(rest, ',');
    if (row.rest == TypeName::Rest::kSection) {
      const std::vector<std::string> parts = absl::StrSplit(rest, " with ");
      type.section = parts[0];
      if (parts.size() == 2) type.with = parts[1];
    }
    if (row.rest != TypeName::Rest::kNothing || rest.empty()) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat("`", text, "` is not a type"));
}

// Parses "fp32; amp_bf16 when device is gpu".
absl::Status ParseFallback(absl::string_view text, KeyRow& row) {
  row.required = text == "required";
  if (row.required || text == "-") return absl::OkStatus();
  if (absl::StartsWith(text, "(") && absl::EndsWith(text, ")")) {
    row.derived = std::string(text.substr(1, text.size() - 2));
    return absl::OkStatus();
  }
  const std::vector<std::string> parts = absl::StrSplit(text, "; ");
  row.fallback = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::string> halves = absl::StrSplit(parts[i], " when ");
    const std::vector<std::string> test = absl::StrSplit(halves.back(), " is ");
    if (halves.size() != 2 || test.size() != 2)
      return absl::InvalidArgumentError(absl::StrCat("`", parts[i], "` is not `VALUE when KEY is VALUE`"));
    row.otherwise.push_back({halves[0], test[0], test[1]});
  }
  return absl::OkStatus();
}

absl::StatusOr<KeyRow> ParseRow(absl::string_view line) {
  const std::vector<std::string> cells = absl::StrSplit(line, absl::MaxSplits(" | ", 3));
  if (cells.size() != 4) return absl::InvalidArgumentError("expected `key | type | default | meaning`");
  KeyRow row;
  row.key = std::string(absl::StripAsciiWhitespace(cells[0]));
  row.type_text = std::string(absl::StripAsciiWhitespace(cells[1]));
  row.meaning = std::string(absl::StripAsciiWhitespace(cells[3]));
  ASSIGN_OR_RETURN(row.types, ParseTypes(row.type_text));
  RETURN_IF_ERROR(ParseFallback(absl::StripAsciiWhitespace(cells[2]), row));
  return row;
}

// Parses "n_heads divides d_model", "at most one of a, b".
absl::StatusOr<KeyRule> ParseRule(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "at most one of ")) return KeyRule{KeyRule::Kind::kAtMostOne, Words(text, ',')};
  const std::vector<std::string> keys = absl::StrSplit(text, " divides ");
  if (keys.size() == 2) return KeyRule{KeyRule::Kind::kDivides, keys};
  return absl::InvalidArgumentError(absl::StrCat("`", text, "` is not a rule"));
}

absl::StatusOr<KeySection> ParseHeader(absl::string_view line) {
  const size_t end = line.find(']');
  const std::vector<std::string> words = Words(line.substr(1, end == absl::string_view::npos ? end : end - 1), ' ');
  if (end == absl::string_view::npos || words.size() != 2)
    return absl::InvalidArgumentError("expected `[kind name] meaning`");
  KeySection section;
  section.kind = words[0];
  section.name = words[1];
  section.meaning = std::string(absl::StripAsciiWhitespace(line.substr(end + 1)));
  return section;
}

}  // namespace

const KeyRow* KeySection::Find(absl::string_view key) const {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const KeyRow& r) { return r.key == key; });
  return row == rows.end() ? nullptr : &*row;
}

absl::StatusOr<std::vector<ValueType>> ParseTypes(absl::string_view text) {
  std::vector<ValueType> types;
  for (absl::string_view part : absl::StrSplit(text, " or ")) {
    ASSIGN_OR_RETURN(ValueType type, ParseType(part));
    types.push_back(std::move(type));
  }
  return types;
}

absl::Status Schema::Add(absl::string_view table) {
  std::map<std::pair<std::string, std::string>, KeySection> added = sections_;
  KeySection* section = nullptr;
  int number = 0;
  const auto line_status = [&](absl::string_view line) -> absl::Status {
    if (line[0] == '[') {
      ASSIGN_OR_RETURN(KeySection header, ParseHeader(line));
      const auto [it, is_new] = added.try_emplace({header.kind, header.name}, header);
      section = &it->second;
      return is_new ? absl::OkStatus() : absl::InvalidArgumentError("this section is there already");
    }
    if (section == nullptr) return absl::InvalidArgumentError("expected `[kind name]` first");
    if (absl::ConsumePrefix(&line, "include ")) {
      const auto from = added.find({"map", std::string(line)});
      if (from == added.end()) return absl::InvalidArgumentError(absl::StrCat("there is no [map ", line, "] before"));
      section->rows.insert(section->rows.end(), from->second.rows.begin(), from->second.rows.end());
      return absl::OkStatus();
    }
    if (absl::ConsumePrefix(&line, "rule ")) {
      ASSIGN_OR_RETURN(KeyRule rule, ParseRule(line));
      section->rules.push_back(std::move(rule));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(KeyRow row, ParseRow(line));
    if (section->Find(row.key) != nullptr) return absl::InvalidArgumentError("this key is there already");
    section->rows.push_back(std::move(row));
    return absl::OkStatus();
  };
  const std::string joined = absl::StrReplaceAll(table, {{"\\\n", ""}});
  for (absl::string_view line : absl::StrSplit(joined, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    RETURN_IF_ERROR(Annotate(line_status(line), absl::StrCat("line ", number, ": `", line.substr(0, 80), "`")));
  }
  sections_ = std::move(added);
  return absl::OkStatus();
}

const KeySection* Schema::Find(absl::string_view kind, absl::string_view name) const {
  const auto it = sections_.find({std::string(kind), std::string(name)});
  return it == sections_.end() ? nullptr : &it->second;
}

std::vector<std::string> Schema::Names(absl::string_view kind) const {
  std::vector<std::string> names;
  for (const auto& [key, section] : sections_) {
    if (key.first == kind) names.push_back(key.second);
  }
  return names;
}

const Schema& BuiltInSchema() {
  static const Schema& schema = *[] {
    auto* made = new Schema;
    for (const char* table : kKeyTables) {
      const absl::Status status = made->Add(table);
      CHECK(status.ok()) << status.message();
    }
    return made;
  }();
  return schema;
}

}  // namespace composer
