// Makes --help and --explain from the table that parses the command line. Pure text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/options.h"

namespace composer {

inline constexpr size_t kHelpColumns = 80;  // when the width of the terminal is unknown

// Indents each row, aligns the second parts and wraps them to the width; a first part that is too long for that gets a
// line of its own.
std::string TwoColumns(const std::vector<std::pair<std::string, std::string>>& rows, size_t columns = kHelpColumns);

// Returns the options with their help, default and variable, without the hidden ones.
std::string OptionsHelp(const std::vector<Option>& table, size_t columns = kHelpColumns);

// Returns the whole --help of a command: "usage: composer status [flags] [JOB]", what it does, its options.
std::string CommandHelp(absl::string_view usage, absl::string_view help, const std::vector<Option>& table,
                        size_t columns = kHelpColumns);

// Returns the values with their origins for --explain, aligned, one per line. Describes a default that has no fixed
// value.
std::string ExplainOptions(const std::vector<OptionValue>& values);

// Flags may stand anywhere. Returns the other arguments; kInvalidArgument unless there are exactly `paths` of them,
// kCancelled with the flags' help text if --help was given.
absl::StatusOr<std::vector<std::string>> ParseToolArguments(const std::vector<Option>& table,
                                                            const std::vector<std::string>& args, size_t paths);

}  // namespace composer
