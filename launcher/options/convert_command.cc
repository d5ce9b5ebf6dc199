// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/convert_command.h"

#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/console.h"
#include "base/file.h"
#include "base/option_help.h"
#include "base/options.h"
#include "config/convert.h"
#include "contract/exit_code.h"
#include "launcher/options/print_help.h"

namespace composer {
namespace {

std::string Comments(const std::string& path, const std::vector<std::string>& left_out) {
  std::string text = absl::StrCat("# Made by `composer convert` from ", absl::CHexEscape(path), ".\n");
  if (!left_out.empty()) absl::StrAppend(&text, "# Left out:\n");
  for (const std::string& line : left_out) absl::StrAppend(&text, "#   ", line, "\n");
  return text;
}

void Report(absl::string_view title, const std::vector<std::string>& lines) {
  if (!lines.empty()) std::fprintf(stderr, "%s\n", std::string(title).c_str());
  for (const std::string& line : lines) std::fprintf(stderr, "  %s\n", line.c_str());
}

}  // namespace

int ConvertCommand(const std::vector<std::string>& arguments, const Environment& environment) {
  std::string output;
  bool help = false;
  const std::vector<Option> table = {
      Valued("output", "FILE", "write there, not to standard output", "", IntoString(&output), 'o'),
      HelpSwitch(&help),
  };
  const auto parsed = ParseOptions(table, arguments, environment);
  if (!parsed.ok()) return UserError(parsed.status().message());
  if (help) {
    return PrintHelp(CommandHelp("composer convert [flags] FILE",
                                 "Rewrites a file of Composer's, llm-foundry's or DeepSpeed's names with ours, and "
                                 "lists what it leaves out and why.",
                                 table, HelpColumns()));
  }
  // Flags may follow the file, too.
  const bool more = parsed->rest.size() > 1;
  const auto after = ParseOptions(table, {parsed->rest.begin() + (more ? 1 : 0), parsed->rest.end()}, environment);
  if (more && !after.ok()) return UserError(after.status().message());
  if (parsed->rest.empty() || (more && !after->rest.empty())) return UserError("convert takes one FILE");
  const std::string& path = parsed->rest[0];
  const absl::StatusOr<Converted> converted = ConvertConfig(path, environment, BuiltInSchema());
  if (!converted.ok()) return UserError(converted.status().message());
  const std::string text = absl::StrCat(Comments(path, converted->left_out), converted->yaml);
  if (output.empty()) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  } else if (PathExists(output)) {
    return UserError(absl::StrCat("--output ", output, ": the file is there already"));
  } else if (const absl::Status status = AtomicWriteFile(output, text); !status.ok()) {
    return UserError(status.message());
  }
  Report("left out:", converted->left_out);
  Report("still to do:", converted->to_do);
  return converted->to_do.empty() ? exit_code::kDone : exit_code::kUserError;
}

}  // namespace composer
