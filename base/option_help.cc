// SPDX-License-Identifier: Apache-2.0
#include "base/option_help.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/env.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kMaxFirst = 34;   // columns of a first part that has text beside it
constexpr size_t kMinSecond = 24;  // columns of the second part, however narrow the terminal is
constexpr size_t kMaxValue = 40;   // in --explain
constexpr size_t kValueColumn = 24;

std::string Spelling(const Option& option) {
  std::string text = option.short_name != 0 ? absl::StrFormat("-%c, ", option.short_name) : "    ";
  absl::StrAppend(&text, "--", option.name);
  if (option.metavar.empty()) return text;
  return option.implied.empty() ? absl::StrCat(text, " ", option.metavar)
                                : absl::StrCat(text, "[=", option.metavar, "]");
}

std::string Description(const Option& option) {
  std::string text = option.help;
  if (!option.fallback.empty()) absl::StrAppend(&text, " [", option.fallback, "]");
  if (!option.environment.empty()) absl::StrAppend(&text, " (env ", option.environment.front(), ")");
  return text;
}

// Indents the lines after the first.
std::string Wrap(absl::string_view text, size_t indent, size_t columns) {
  const size_t end = std::max(columns, indent + kMinSecond);
  std::string result;
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!result.empty() && column + 1 + word.size() > end) {
      absl::StrAppend(&result, "\n", std::string(indent, ' '));
      column = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    absl::StrAppend(&result, word);
    column += word.size();
  }
  return result;
}

// A default that depends on other settings is given in words, not as a value.
bool IsDescribed(const OptionValue& v) { return v.origin == "default" && absl::StrContains(v.value, ' '); }

}  // namespace

std::string TwoColumns(const std::vector<std::pair<std::string, std::string>>& rows, size_t columns) {
  size_t width = 0;
  for (const auto& [first, second] : rows) width = std::max(width, std::min(first.size(), kMaxFirst));
  const size_t indent = width + 4;
  std::string text;
  for (const auto& [first, second] : rows) {
    const std::string gap =
        first.size() > width ? "\n" + std::string(indent, ' ') : std::string(indent - 2 - first.size(), ' ');
    absl::StrAppend(&text, "  ", first, second.empty() ? "" : gap, Wrap(second, indent, columns), "\n");
  }
  return text;
}

std::string OptionsHelp(const std::vector<Option>& table, size_t columns) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Option& option : table) {
    if (!option.hidden) rows.emplace_back(Spelling(option), Description(option));
  }
  return TwoColumns(rows, columns);
}

std::string CommandHelp(absl::string_view usage, absl::string_view help, const std::vector<Option>& table,
                        size_t columns) {
  const std::string options = OptionsHelp(table, columns);
  return absl::StrCat("usage: ", usage, "\n\n", Wrap(help, 0, columns), "\n", options.empty() ? "" : "\n", options);
}

std::string ExplainOptions(const std::vector<OptionValue>& values) {
  size_t name_width = 0, value_width = kValueColumn;
  for (const OptionValue& v : values) {
    name_width = std::max(name_width, v.name.size());
    if (!IsDescribed(v) && v.value.size() <= kMaxValue) value_width = std::max(value_width, v.value.size());
  }
  std::string text;
  for (const OptionValue& v : values) {
    const bool described = IsDescribed(v);
    const std::string value = v.value.empty() || described ? "-" : v.value;
    const std::string origin = described ? absl::StrCat("default: ", v.value) : v.origin;
    const std::string gap = value.size() > value_width ? "\n" + std::string(name_width + 1 + value_width, ' ') : "";
    absl::StrAppendFormat(&text, "%-*s %-*s%s %s\n", name_width, v.name, gap.empty() ? value_width : 0, value, gap,
                          origin);
  }
  return text;
}

absl::StatusOr<std::vector<std::string>> ParseToolArguments(const std::vector<Option>& table,
                                                            const std::vector<std::string>& args, size_t paths) {
  std::vector<std::string> found;
  const Environment none;
  const bool wants_help =
      std::any_of(args.begin(), args.end(), [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
  if (wants_help) return absl::CancelledError(OptionsHelp(table));
  // Flags are parsed one at a time, so that each `set` sees every value of a repeated flag.
  for (size_t i = 0; i < args.size();) {
    if (args[i].size() < 2 || args[i][0] != '-') {
      found.push_back(args[i++]);
    } else if (ParseOptions(table, {args[i]}, none).ok()) {  // a switch, or a flag with its value
      ++i;
    } else {
      const std::vector<std::string> with_next(
          args.begin() + static_cast<std::ptrdiff_t>(i),
          args.begin() + static_cast<std::ptrdiff_t>(std::min(i + 2, args.size())));
      RETURN_IF_ERROR(ParseOptions(table, with_next, none).status());
      i += 2;
    }
  }
  if (found.size() != paths)
    return absl::InvalidArgumentError(
        absl::StrCat("takes ", paths, " path", paths == 1 ? "" : "s", ", not ", found.size()));
  return found;
}

}  // namespace composer
