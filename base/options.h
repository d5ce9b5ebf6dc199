// Command-line options as one table, which serves for parsing, the origin of each value, --help (base/option_help.h),
// the shell completion and the manual page (launcher/options/option_docs.h).
//
//   std::vector<Option> table = {{.name = "nproc", .aliases = {"nproc-per-node"}, .short_name = 'n', .environment =
//   {"LOCAL_WORLD_SIZE"}, .metavar = "N", .help = "workers on this node", .fallback = "1", .set = IntoInt(&n, 1, 9)}};
//   ASSIGN_OR_RETURN(ParsedOptions parsed, ParseOptions(table, arguments, environment));
//
// The syntax is that of Python's argparse: --name value, --name=value, -n value, -nvalue, several switches in one
// (-vm), and any unambiguous prefix of a long name (--world). `-` and `_` are equal in long names. A switch (no
// metavar) takes no value, or =true / =false. Parsing ends at the first argument that is not a flag, or after `--`:
// what follows belongs to the program. The last of several equal flags wins; a flag wins over the environment, which
// wins over the default. Errors are kInvalidArgument and name the flag or variable, the value, what is allowed and the
// nearest known flag.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Takes the text of a value; an error says what is allowed ("must be …") and leaves the target unchanged.
using OptionSetter = std::function<absl::Status(absl::string_view value)>;

struct Option {
  std::string name;                  // "max-restarts"
  std::vector<std::string> aliases;  // other long names
  char short_name = 0;               // 0: none
  // Variables that also give the value; the first one that is set and not empty counts.
  std::vector<std::string> environment;
  std::string metavar;   // "N"; empty: a switch
  std::string help;      // one line
  std::string fallback;  // the default as text, for --help and --explain; the target already holds it
  OptionSetter set;
  // If not empty, the value may be left out and is then this one; the next argument is taken as the value only if
  // `set` accepts it.
  std::string implied;
  std::vector<std::string> choices = {};  // for completion; `set` decides
  bool hidden = false;                    // not in --help and completion
};

// Most options are one of these two: with a value and a default ("": none), or a switch.
Option Valued(std::string name, std::string metavar, std::string help, std::string fallback, OptionSetter set,
              char short_name = 0);
Option Switch(std::string name, std::string help, OptionSetter set, char short_name = 0);
// --help, -h.
Option HelpSwitch(bool* help);

// Options under one heading of --help.
struct OptionGroup {
  std::string title;
  std::vector<Option> options;
};

struct OptionValue {
  std::string name;
  std::string value;
  std::string origin;  // "flag --nproc", "environment LOCAL_WORLD_SIZE", "default"
};

struct ParsedOptions {
  std::vector<OptionValue> values;  // one for each option, in the table's order
  std::vector<std::string> rest;    // from the first argument that is not a flag

  // Returns whether a flag or a variable gave the option.
  bool Given(absl::string_view name) const;
};

absl::StatusOr<ParsedOptions> ParseOptions(const std::vector<Option>& table, const std::vector<std::string>& arguments,
                                           const Environment& environment);

// Returns all options of all groups.
std::vector<Option> Flatten(const std::vector<OptionGroup>& groups);

// Setters. The targets must outlive the parse.
OptionSetter IntoString(std::string* target);
OptionSetter IntoInt(int* target, int min, int max);
OptionSetter IntoBool(bool* target);
// Accepts one of the allowed words.
OptionSetter IntoChoice(std::string* target, std::vector<std::string> allowed);

}  // namespace composer
