// SPDX-License-Identifier: Apache-2.0
#include "views/read/flat_json.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"

namespace composer {

double JsonMember::number() const {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size()) return number;
  return std::numeric_limits<double>::quiet_NaN();
}

FlatJson::FlatJson(absl::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

void FlatJson::SkipSpace() {
  while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\n')) ++at_;
}

bool FlatJson::Take(char expected) {
  SkipSpace();
  if (at_ == end_ || *at_ != expected) return false;
  ++at_;
  return true;
}

bool FlatJson::TakeText(absl::string_view& text) {
  if (!Take('"')) return false;
  const char* begin = at_;
  for (; at_ < end_ && *at_ != '"'; ++at_) {
    if (*at_ == '\\' && ++at_ == end_) return false;
  }
  if (at_ == end_) return false;
  text = absl::string_view(begin, static_cast<size_t>(at_ - begin));
  ++at_;
  return true;
}

bool FlatJson::TakeValue(absl::string_view& value) {
  SkipSpace();
  const char* begin = at_;
  if (at_ < end_ && *at_ == '"') {
    absl::string_view text;
    if (!TakeText(text)) return false;
  } else {
    while (at_ < end_ && *at_ != ',' && *at_ != '}' && *at_ != ' ') {
      if (*at_ == '{' || *at_ == '[' || *at_ == '"') return false;
      ++at_;
    }
  }
  value = absl::string_view(begin, static_cast<size_t>(at_ - begin));
  return !value.empty();
}

bool FlatJson::Next(JsonMember& member) {
  if (done_) return false;
  if (!begun_) {
    if (!Take('{')) return false;
    begun_ = true;
    SkipSpace();
    if (at_ == end_ || *at_ != '}') return TakeText(member.key) && Take(':') && TakeValue(member.value);
  } else if (Take(',')) {
    return TakeText(member.key) && Take(':') && TakeValue(member.value);
  }
  if (!Take('}')) return false;
  SkipSpace();
  done_ = at_ == end_;
  return false;
}

std::string WithoutEscapes(absl::string_view escaped) {
  if (escaped.find('\\') == absl::string_view::npos) return std::string(escaped);
  const auto json = ParseJson(absl::StrCat("\"", escaped, "\""));
  return json.is_string() ? json.get<std::string>() : "";
}

}  // namespace composer
