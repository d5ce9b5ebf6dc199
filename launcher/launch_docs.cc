// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_docs.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/console.h"
#include "base/option_help.h"
#include "contract/exit_code.h"
#include "launcher/options/launch_option_table.h"
#include "launcher/subcommands.h"

namespace composer {
namespace {

constexpr char kSummary[] = "trains neural networks and keeps the training alive";

std::string ExitCodes(absl::string_view between) {
  std::string text;
  for (const exit_code::Meaning& row : exit_code::kMeanings) {
    const std::string code = absl::StrCat(row.code, row.code == exit_code::kSignalled ? "+n" : "");
    absl::StrAppendFormat(&text, "%s%-6s%s; %s", text.empty() ? "" : between, code, row.meaning, row.follows);
  }
  return text;
}

constexpr char kNodes[] =
    "Two nodes of 8 workers, as the Python launcher takes it, once on each with its\n"
    "node_rank:\n\n"
    "composer -n 8 --world_size 16 --node_rank 0 --master_addr 10.0.0.1 job.yaml\n\n"
    "One to four nodes, as torchrun takes it:\n\n"
    "composer --nnodes 1:4 -n 8 --rdzv-endpoint 10.0.0.1:7501 job.yaml\n\n"
    "Node 0, or the node that has the address of the endpoint, serves the rendezvous;\n"
    "the others try to reach it for --join-timeout seconds. --explain shows every\n"
    "setting and where it is from.";

}  // namespace

ProgramDocs LaunchDocs() {
  LaunchOptions unused;
  ProgramDocs docs = {.name = "composer", .version = COMPOSER_VERSION, .summary = kSummary};
  docs.usage = {"composer [flags] job.yaml [key=value ...]  train, as the YAML file says",
                "composer [flags] plugin.so job.yaml [...]  the same, with a plugin's models",
                "composer [flags] script.py [arguments]     start a Python script on N ranks",
                "composer [flags] -m module [arguments]     start a Python module",
                "composer [flags] -c program [arguments]    start any other program on N ranks"};
  for (const Subcommand& c : Subcommands())
    docs.commands.push_back({c.name, c.usage, c.help, c.words, c.flags, c.takes_job});
  docs.options = LaunchOptionTable(unused);
  docs.sections = {{"several nodes", kNodes}, {"exit status", ExitCodes("\n\n")}};
  return docs;
}

std::string LaunchHelp() {
  const ProgramDocs docs = LaunchDocs();
  const size_t columns = HelpColumns();
  std::string text = absl::StrCat("composer ", docs.summary, ".\n\nusage:\n");
  for (const std::string& line : docs.usage) absl::StrAppend(&text, "  ", line, "\n");
  std::vector<std::pair<std::string, std::string>> commands;
  for (const ProgramDocs::Command& c : docs.commands) commands.emplace_back(absl::StrCat(c.name, " ", c.usage), c.help);
  absl::StrAppend(&text, "\ncommands (composer COMMAND --help says more):\n", TwoColumns(commands, columns));
  absl::StrAppend(&text, "\nflags (- and _ are equal in names):\n");
  for (const OptionGroup& group : docs.options) {
    const std::string lines = OptionsHelp(group.options, columns);
    if (!lines.empty()) absl::StrAppend(&text, "\n", group.title, ":\n", lines);
  }
  return absl::StrCat(text, "\nexit codes:\n", ExitCodes("\n"), "\n");
}

std::string LaunchCompletion(absl::string_view kind) {
  if (kind == "bash") return BashCompletion(LaunchDocs());
  if (kind == "zsh") return ZshCompletion(LaunchDocs());
  if (kind == "fish") return FishCompletion(LaunchDocs());
  return ManPage(LaunchDocs());
}

}  // namespace composer
