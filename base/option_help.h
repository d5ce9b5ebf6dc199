// --help and --explain, made from the table that parses the command line. Pure text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/options.h"

namespace composer {

inline constexpr size_t kHelpColumns = 80;  // where the width of the terminal is not known

// Each row indented, its second part aligned with the others' and wrapped to the width; a first part that is too long for
// that has a line of its own.
std::string TwoColumns(const std::vector<std::pair<std::string, std::string>>& rows, size_t columns = kHelpColumns);

// The options with their help, default and variable. Hidden ones are left out.
std::string OptionsHelp(const std::vector<Option>& table, size_t columns = kHelpColumns);

// The whole --help of a command: "usage: composer status [flags] [JOB]", what it does, its options.
std::string CommandHelp(absl::string_view usage, absl::string_view help, const std::vector<Option>& table,
                        size_t columns = kHelpColumns);

// The values with their origins, aligned, one a line, for --explain. A default that has no fixed value is described.
std::string ExplainOptions(const std::vector<OptionValue>& values);

}  // namespace composer
