// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/argument_expansion.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

size_t NameLength(absl::string_view text) {
  size_t length = 0;
  while (length < text.size() && (absl::ascii_isalnum(static_cast<unsigned char>(text[length])) || text[length] == '_'))
    ++length;
  return length;
}

}  // namespace

std::string ExpandArgument(absl::string_view text, const Environment& environment) {
  std::string result;
  if (const auto home = environment.Get("HOME"); home.has_value() && (text == "~" || absl::StartsWith(text, "~/"))) {
    result = *home;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const size_t dollar = text.find('$');
    absl::StrAppend(&result, text.substr(0, dollar));
    if (dollar == absl::string_view::npos) break;
    text.remove_prefix(dollar);
    const bool braces = absl::StartsWith(text, "${");
    const absl::string_view after = text.substr(braces ? 2 : 1);
    const size_t length = braces ? std::min(after.find('}'), after.size()) : NameLength(after);
    const bool closed = !braces || length < after.size();
    const std::optional<std::string> value = closed ? environment.Get(after.substr(0, length)) : std::nullopt;
    const size_t whole = (braces ? 2 : 1) + length + (braces && closed ? 1 : 0);
    absl::StrAppend(&result, value.has_value() ? absl::string_view(*value) : text.substr(0, whole));
    text.remove_prefix(whole);
  }
  return result;
}

}  // namespace composer
