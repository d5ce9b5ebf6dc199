// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace composer {
namespace {

std::string Canonical(absl::string_view name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

const Option* FindLong(const std::vector<Option>& table, absl::string_view name) {
  const std::string canonical = Canonical(name);
  const auto it =
      std::find_if(table.begin(), table.end(), [&](const Option& o) { return Canonical(o.name) == canonical; });
  return it == table.end() ? nullptr : &*it;
}

const Option* FindShort(const std::vector<Option>& table, char name) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const Option& o) { return o.short_name == name; });
  return it == table.end() ? nullptr : &*it;
}

absl::Status UnknownFlag(const std::vector<Option>& table, absl::string_view flag) {
  std::vector<std::string> known;
  for (const Option& option : table) known.push_back(absl::StrCat("--", option.name));
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", flag, DidYouMean(flag, known), "; --help lists them all"));
}

// One flag as written: which option, and the value when it is part of the same argument.
struct Flag {
  const Option* option;
  std::string written;
  std::optional<std::string> value;
};

absl::StatusOr<Flag> ReadFlag(const std::vector<Option>& table, absl::string_view argument) {
  if (argument[1] != '-') {
    const std::string written(argument.substr(0, 2));
    const Option* option = FindShort(table, argument[1]);
    if (option == nullptr || (argument.size() > 2 && option->metavar.empty())) return UnknownFlag(table, argument);
    if (argument.size() == 2) return Flag{option, written, std::nullopt};
    return Flag{option, written, std::string(argument.substr(2))};
  }
  const size_t equals = argument.find('=');
  const absl::string_view written = argument.substr(0, equals);
  const Option* option = FindLong(table, written.substr(2));
  if (option == nullptr) return UnknownFlag(table, written);
  if (equals == absl::string_view::npos) return Flag{option, std::string(written), std::nullopt};
  return Flag{option, std::string(written), std::string(argument.substr(equals + 1))};
}

bool IsFlag(absl::string_view argument) { return argument.size() >= 2 && argument[0] == '-'; }

using Given = std::map<const Option*, OptionValue>;

absl::Status ReadFlags(const std::vector<Option>& table, const std::vector<std::string>& arguments, Given& given,
                       std::vector<std::string>& rest) {
  size_t i = 0;
  for (; i < arguments.size() && IsFlag(arguments[i]); ++i) {
    if (arguments[i] == "--") {
      ++i;
      break;
    }
    ASSIGN_OR_RETURN(Flag flag, ReadFlag(table, arguments[i]));
    if (!flag.value.has_value()) {
      if (flag.option->metavar.empty()) {
        flag.value = "true";
      } else if (i + 1 < arguments.size()) {
        flag.value = arguments[++i];
      } else {
        return absl::InvalidArgumentError(absl::StrCat(flag.written, " needs a value: ", flag.option->metavar));
      }
    }
    given[flag.option] = {flag.option->name, *flag.value, absl::StrCat("flag ", flag.written)};
  }
  rest.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return absl::OkStatus();
}

void ReadEnvironment(const std::vector<Option>& table, const Environment& environment, Given& given) {
  for (const Option& option : table) {
    for (const std::string& variable : option.environment) {
      if (given.contains(&option)) break;
      const std::string value = environment.GetOr(variable, "");
      if (!value.empty()) given[&option] = {option.name, value, absl::StrCat("environment ", variable)};
    }
  }
}

std::string Spelling(const Option& option) {
  std::string text = option.short_name != 0 ? absl::StrFormat("-%c, ", option.short_name) : "    ";
  absl::StrAppend(&text, "--", option.name);
  if (!option.metavar.empty()) absl::StrAppend(&text, " ", option.metavar);
  return text;
}

}  // namespace

bool ParsedOptions::Given(absl::string_view name) const {
  return std::any_of(values.begin(), values.end(),
                     [&](const OptionValue& v) { return v.name == name && v.origin != "default"; });
}

absl::StatusOr<ParsedOptions> ParseOptions(const std::vector<Option>& table, const std::vector<std::string>& arguments,
                                           const Environment& environment) {
  ParsedOptions result;
  Given given;
  RETURN_IF_ERROR(ReadFlags(table, arguments, given, result.rest));
  ReadEnvironment(table, environment, given);
  for (const Option& option : table) {
    const auto it = given.find(&option);
    if (it == given.end()) {
      result.values.push_back({option.name, option.fallback, "default"});
      continue;
    }
    if (absl::Status status = option.set(it->second.value); !status.ok()) {
      const absl::string_view origin = it->second.origin;
      const absl::string_view written = origin.substr(origin.find(' ') + 1);
      const std::string name = absl::StrContains(written, option.name) ? "" : absl::StrCat(" (--", option.name, ")");
      return absl::InvalidArgumentError(absl::StrCat(written, name, ": `", it->second.value, "` ", status.message()));
    }
    result.values.push_back(it->second);
  }
  return result;
}

std::string OptionsHelp(const std::vector<Option>& table) {
  size_t width = 0;
  for (const Option& option : table) width = std::max(width, Spelling(option).size());
  std::string text;
  for (const Option& option : table) {
    absl::StrAppendFormat(&text, "  %-*s  %s", width, Spelling(option), option.help);
    if (!option.fallback.empty()) absl::StrAppend(&text, " [", option.fallback, "]");
    if (!option.environment.empty()) absl::StrAppend(&text, " (env ", option.environment.front(), ")");
    text += '\n';
  }
  return text;
}

std::string ExplainOptions(const std::vector<OptionValue>& values) {
  std::string text;
  for (const OptionValue& v : values) {
    absl::StrAppendFormat(&text, "%-16s %-24s %s\n", v.name, v.value.empty() ? "-" : v.value, v.origin);
  }
  return text;
}

OptionSetter IntoString(std::string* target) {
  return [target](absl::string_view value) {
    *target = std::string(value);
    return absl::OkStatus();
  };
}

OptionSetter IntoInt(int* target, int min, int max) {
  return [=](absl::string_view value) -> absl::Status {
    int number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < min || number > max) {
      return absl::InvalidArgumentError(absl::StrCat("must be a whole number from ", min, " to ", max));
    }
    *target = number;
    return absl::OkStatus();
  };
}

OptionSetter IntoBool(bool* target) {
  return [target](absl::string_view value) -> absl::Status {
    if (!absl::SimpleAtob(value, target)) return absl::InvalidArgumentError("must be true or false");
    return absl::OkStatus();
  };
}

}  // namespace composer
