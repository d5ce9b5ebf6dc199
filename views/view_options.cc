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
  return Switch("help", "print this", [](absl::string_view) { return absl::OkStatus(); }, 'h');
}

}  // namespace

std::vector<Option> RunsFlags(RunsOptions* options) {
  return {
      Valued("metrics", "NAMES", "columns: names with commas between them, `*` allowed", "",
             IntoList(&options->metrics), 'm'),
      Valued("filter", "CONDITION",
             "only runs with loss/train/total<0.5, state=done, name=bert-*, config.optimizers.lr=0.001 (several: all)",
             "", Adding(&options->filters), 'f'),
      Valued("sort", "KEY", "by a column, a metric or config.PATH; -KEY: descending (default: the newest first)", "",
             IntoString(&options->sort), 's'),
      Valued("limit", "N", "the first N", "", IntoInt(&options->limit, 1, 1 << 30)),
      Switch("compare", "the settings in which they differ", IntoBool(&options->compare)),
      Switch("follow", "again every 2 seconds, until Ctrl-C", IntoBool(&options->follow)),
      Switch("json", "print JSON", IntoBool(&options->json)),
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
      Valued("smooth", "WEIGHT", "moving average, 0 to less than 1", "0", IntoString(&options->smooth)),
      Switch("log", "logarithmic y axis", IntoBool(&options->log)),
      Valued("svg", "FILE", "write a picture there", "", IntoString(&options->svg)),
      Valued("png", "FILE", "the same, in pixels", "", IntoString(&options->png)),
      Valued("width", "N", "columns (pixels)", "", IntoInt(&options->width, 30, 4000)),
      Valued("height", "N", "lines (pixels)", "", IntoInt(&options->height, 8, 4000)),
      HelpFlag(),
  };
}

std::vector<Option> ReportFlags(ReportOptions* options) {
  return {Valued("output", "FILE", "write there", "(the run's folder)/report.html", IntoString(&options->output), 'o'),
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
