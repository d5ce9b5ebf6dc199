// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace composer {
namespace {

std::string Canonical(absl::string_view name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

std::vector<std::string> LongNames(const Option& option) {
  std::vector<std::string> names = {Canonical(option.name)};
  for (const std::string& alias : option.aliases) names.push_back(Canonical(alias));
  return names;
}

// Returns the option of that name, else the only one whose name starts with it. kNotFound: none; kInvalidArgument:
// several.
absl::StatusOr<const Option*> FindLong(const std::vector<Option>& table, absl::string_view name) {
  const std::string canonical = Canonical(name);
  std::vector<const Option*> found;
  std::vector<std::string> names;
  for (const Option& option : table) {
    for (const std::string& known : LongNames(option)) {
      if (known == canonical) return &option;
      if (canonical.empty() || option.hidden || !absl::StartsWith(known, canonical)) continue;
      names.push_back(absl::StrCat("--", known));
      if (found.empty() || found.back() != &option) found.push_back(&option);
    }
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) return absl::NotFoundError(name);
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " could be any of ", absl::StrJoin(names, ", "), ": write more of it"));
}

const Option* FindShort(const std::vector<Option>& table, char name) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const Option& o) { return o.short_name == name; });
  return it == table.end() ? nullptr : &*it;
}

absl::Status UnknownFlag(const std::vector<Option>& table, absl::string_view flag) {
  std::vector<std::string> known;
  for (const Option& option : table) {
    if (option.hidden) continue;
    for (const std::string& name : LongNames(option)) known.push_back(absl::StrCat("--", name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", flag, DidYouMean(flag, known), "; --help lists them all"));
}

// One flag as written: its option, and the value when that is part of the same argument.
struct Flag {
  const Option* option;
  std::string written;
  std::optional<std::string> value;
};

// Appends the flags of one argument; there are several when switches are combined (-vm).
absl::Status ReadShort(const std::vector<Option>& table, absl::string_view argument, std::vector<Flag>& flags) {
  for (size_t i = 1; i < argument.size(); ++i) {
    const Option* option = FindShort(table, argument[i]);
    if (option == nullptr) return UnknownFlag(table, argument);
    const std::string written = absl::StrCat("-", argument.substr(i, 1));
    if (option->metavar.empty()) {
      flags.push_back({option, written, std::nullopt});
      continue;
    }
    absl::string_view value = argument.substr(i + 1);
    if (value.empty()) {
      flags.push_back({option, written, std::nullopt});
    } else {
      absl::ConsumePrefix(&value, "=");
      flags.push_back({option, written, std::string(value)});
    }
    break;
  }
  return absl::OkStatus();
}

absl::Status ReadFlag(const std::vector<Option>& table, absl::string_view argument, std::vector<Flag>& flags) {
  if (argument[1] != '-') return ReadShort(table, argument, flags);
  const size_t equals = argument.find('=');
  const absl::string_view written = argument.substr(0, equals);
  const auto option = FindLong(table, written.substr(2));
  if (absl::IsNotFound(option.status())) return UnknownFlag(table, written);
  if (!option.ok()) return option.status();
  Flag flag = {*option, std::string(written), std::nullopt};
  if (equals != absl::string_view::npos) flag.value = std::string(argument.substr(equals + 1));
  flags.push_back(std::move(flag));
  return absl::OkStatus();
}

bool IsFlag(absl::string_view argument) { return argument.size() >= 2 && argument[0] == '-'; }

using Given = std::map<const Option*, OptionValue>;

// Returns the value of a flag that was written without one.
absl::StatusOr<std::string> ValueOf(const Flag& flag, const std::string* next, bool& took_next) {
  const Option& option = *flag.option;
  if (option.metavar.empty()) return std::string("true");
  if (!option.implied.empty()) {
    took_next = next != nullptr && option.set(*next).ok();
    return took_next ? *next : option.implied;
  }
  if (next == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(flag.written, " needs a value: ", option.metavar));
  }
  took_next = true;
  return *next;
}

absl::Status ReadFlags(const std::vector<Option>& table, const std::vector<std::string>& arguments, Given& given,
                       std::vector<std::string>& rest) {
  size_t i = 0;
  for (; i < arguments.size() && IsFlag(arguments[i]); ++i) {
    if (arguments[i] == "--") {
      ++i;
      break;
    }
    std::vector<Flag> flags;
    RETURN_IF_ERROR(ReadFlag(table, arguments[i], flags));
    for (Flag& flag : flags) {
      const std::string* next = &flag == &flags.back() && i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
      bool took_next = false;
      if (!flag.value.has_value()) {
        ASSIGN_OR_RETURN(flag.value, ValueOf(flag, next, took_next));
      }
      if (took_next) ++i;
      given[flag.option] = {flag.option->name, *flag.value, absl::StrCat("flag ", flag.written)};
    }
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
    absl::Status status = FirstBadUtf8(it->second.value) == absl::string_view::npos
                              ? option.set(it->second.value)
                              : absl::InvalidArgumentError("must be valid UTF-8");
    if (!status.ok()) {
      const absl::string_view origin = it->second.origin;
      const absl::string_view written = origin.substr(origin.find(' ') + 1);
      const std::string name =
          absl::StrContains(Canonical(written), Canonical(option.name)) ? "" : absl::StrCat(" (--", option.name, ")");
      return absl::InvalidArgumentError(absl::StrCat(written, name, ": `",
                                                     FirstBadUtf8(it->second.value) == absl::string_view::npos
                                                         ? it->second.value
                                                         : absl::CHexEscape(it->second.value),
                                                     "` ", status.message()));
    }
    result.values.push_back(it->second);
  }
  return result;
}

Option Valued(std::string name, std::string metavar, std::string help, std::string fallback, OptionSetter set,
              char short_name) {
  Option option = Switch(std::move(name), std::move(help), std::move(set), short_name);
  option.metavar = std::move(metavar);
  option.fallback = std::move(fallback);
  return option;
}

Option Switch(std::string name, std::string help, OptionSetter set, char short_name) {
  return {.name = std::move(name), .short_name = short_name, .help = std::move(help), .set = std::move(set)};
}

Option HelpSwitch(bool* help) { return Switch("help", "print this", IntoBool(help), 'h'); }

std::vector<Option> Flatten(const std::vector<OptionGroup>& groups) {
  std::vector<Option> table;
  for (const OptionGroup& group : groups) table.insert(table.end(), group.options.begin(), group.options.end());
  return table;
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

OptionSetter IntoChoice(std::string* target, std::vector<std::string> allowed) {
  return [target, allowed = std::move(allowed)](absl::string_view value) -> absl::Status {
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("must be one of ", absl::StrJoin(allowed, ", "), DidYouMean(value, allowed)));
    }
    *target = std::string(value);
    return absl::OkStatus();
  };
}

}  // namespace composer
