// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/user_error.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr std::array<absl::string_view, 20> kPythonErrors = {
    "ArithmeticError",    "AssertionError",      "AttributeError",      "FileNotFoundError",
    "ImportError",        "IndentationError",    "IndexError",          "IsADirectoryError",
    "KeyError",           "LookupError",         "ModuleNotFoundError", "NameError",
    "NotADirectoryError", "NotImplementedError", "RecursionError",      "SyntaxError",
    "TabError",           "TypeError",           "UnboundLocalError",   "ValueError"};
constexpr int kUsageCode = 2, kNotExecutable = 126, kNoSuchCommand = 127;
constexpr size_t kMaxText = 300;

bool IsPythonError(absl::string_view line) {
  const absl::string_view name = line.substr(0, line.find(':'));
  return std::find(kPythonErrors.begin(), kPythonErrors.end(), name) != kPythonErrors.end();
}

bool IsUsageError(absl::string_view line) {
  return absl::StartsWithIgnoreCase(line, "usage:") || absl::StrContains(line, "error: unrecognized arguments") ||
         absl::StrContains(line, "error: the following arguments are required") ||
         absl::StrContains(line, "unrecognized option") || absl::StrContains(line, "error: argument ");
}

}  // namespace

std::string UserError(const ExitStatus& status, absl::string_view last_line) {
  if (status.signal != 0 || status.code == 0 || last_line.empty()) return "";
  const bool certain = (status.code == 1 && IsPythonError(last_line)) ||
                       (status.code == kUsageCode && (IsUsageError(last_line) || IsPythonError(last_line))) ||
                       status.code == kNotExecutable || status.code == kNoSuchCommand;
  return certain ? absl::StrCat(status.code, ": ", last_line.substr(0, kMaxText)) : "";
}

}  // namespace composer
