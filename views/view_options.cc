// SPDX-License-Identifier: Apache-2.0
#include "views/view_options.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/console.h"
#include "base/option_help.h"
#include "contract/exit_code.h"
#include "views/run_commands.h"

namespace composer {
namespace {

// Takes a list with commas; several flags add up.
OptionSetter IntoList(std::vector<std::string>* target) {
  return [target](absl::string_view value) {
    for (const absl::string_view part : absl::StrSplit(value, ',', absl::SkipWhitespace())) target->emplace_back(part);
    return absl::OkStatus();
  };
}

OptionSetter Adding(std::vector<std::string>* target) {
  return [target](absl::string_view value) {
    target->emplace_back(value);
    return absl::OkStatus();
  };
}

Option HelpFlag() {
  return {.name = "help", .short_name = 'h', .help = "print this", .set = [](absl::string_view) {
            return absl::OkStatus();
          }};
}

}  // namespace

std::vector<Option> RunsFlags(RunsOptions* options) {
  return {
      {.name = "metrics",
       .short_name = 'm',
       .metavar = "NAMES",
       .help = "columns: names with commas between them, `*` allowed",
       .set = IntoList(&options->metrics)},
      {.name = "filter",
       .short_name = 'f',
       .metavar = "CONDITION",
       .help =
           "only runs with loss/train/total<0.5, state=done, name=bert-*, config.optimizers.lr=0.001 (several: all)",
       .set = Adding(&options->filters)},
      {.name = "sort",
       .short_name = 's',
       .metavar = "KEY",
       .help = "by a column, a metric or config.PATH; -KEY: descending (default: the newest first)",
       .set = IntoString(&options->sort)},
      {.name = "limit", .metavar = "N", .help = "the first N", .set = IntoInt(&options->limit, 1, 1 << 30)},
      {.name = "compare", .help = "the settings in which they differ", .set = IntoBool(&options->compare)},
      {.name = "follow", .help = "again every 2 seconds, until Ctrl-C", .set = IntoBool(&options->follow)},
      {.name = "json", .help = "print JSON", .set = IntoBool(&options->json)},
      HelpFlag(),
  };
}

std::vector<Option> PlotFlags(PlotCommandOptions* options) {
  return {
      {.name = "x",
       .metavar = "AXIS",
       .help = "batch, epoch, sample, token or time (seconds)",
       .fallback = "batch",
       .set = IntoChoice(&options->x, XAxisNames()),
       .choices = XAxisNames()},
      {.name = "smooth",
       .metavar = "WEIGHT",
       .help = "moving average, 0 to less than 1",
       .fallback = "0",
       .set = IntoString(&options->smooth)},
      {.name = "log", .help = "logarithmic y axis", .set = IntoBool(&options->log)},
      {.name = "svg", .metavar = "FILE", .help = "write a picture there", .set = IntoString(&options->svg)},
      {.name = "png", .metavar = "FILE", .help = "the same, in pixels", .set = IntoString(&options->png)},
      {.name = "width", .metavar = "N", .help = "columns (pixels)", .set = IntoInt(&options->width, 30, 4000)},
      {.name = "height", .metavar = "N", .help = "lines (pixels)", .set = IntoInt(&options->height, 8, 4000)},
      HelpFlag(),
  };
}

std::vector<Option> ReportFlags(ReportOptions* options) {
  return {{.name = "output",
           .short_name = 'o',
           .metavar = "FILE",
           .help = "write there",
           .fallback = "(the run's folder)/report.html",
           .set = IntoString(&options->output)},
          HelpFlag()};
}

ViewCall ParseView(const std::string& usage, const std::string& help, const std::vector<Option>& flags,
                   const std::vector<std::string>& arguments) {
  const Environment none;
  ViewCall call;
  // Flags may stand between the words. They are parsed one at a time, so that each of several equal ones counts.
  for (size_t i = 0; i < arguments.size();) {
    const std::string& word = arguments[i];
    if (word == "--help" || word == "-h") return {{}, PrintView(CommandHelp(usage, help, flags, HelpColumns()))};
    if (word.size() < 2 || word[0] != '-') {
      call.words.push_back(arguments[i++]);
    } else if (ParseOptions(flags, {word}, none).ok()) {  // a switch, or a flag with its value
      ++i;
    } else {
      const std::vector<std::string> with_next = {word, i + 1 < arguments.size() ? arguments[i + 1] : ""};
      const auto parsed = ParseOptions(flags, with_next, none);
      if (!parsed.ok()) return {{}, ViewError(parsed.status().message())};
      i += 2;
    }
  }
  return call;
}

int PrintView(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? exit_code::kDone : exit_code::kFailure;
}

int ViewError(absl::string_view message) {
  PrintErrorToUser(message);
  return exit_code::kUserError;
}

std::vector<std::string> FlagsOfView(const std::string& command) {
  RunsOptions runs;
  PlotCommandOptions plot;
  ReportOptions report;
  std::vector<std::string> names;
  for (const Option& flag : command == "runs"   ? RunsFlags(&runs)
                            : command == "plot" ? PlotFlags(&plot)
                                                : ReportFlags(&report))
    names.push_back(absl::StrCat("--", flag.name));
  return names;
}

}  // namespace composer
