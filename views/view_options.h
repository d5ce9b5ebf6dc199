// The flags of the commands that show runs, and what they were set to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/options.h"
#include "views/draw/curve.h"

namespace composer {

struct RunsOptions {
  std::vector<std::string> metrics, filters;
  std::string sort;
  bool json = false, follow = false, compare = false;
  int limit = 0;  // 0: all
};
std::vector<Option> RunsFlags(RunsOptions* options);

struct PlotCommandOptions {
  std::string x = "batch", svg, png, smooth = "0";
  bool log = false;
  int width = 0, height = 0;  // 0: of the terminal
};
std::vector<Option> PlotFlags(PlotCommandOptions* options);

struct ReportOptions {
  std::string output;
};
std::vector<Option> ReportFlags(ReportOptions* options);

// A parsed command line; `exit_code` is set when the command is over: its help or an error was printed.
struct ViewCall {
  std::vector<std::string> words;
  int exit_code = -1;
};
ViewCall ParseView(const std::string& usage, const std::string& help, const std::vector<Option>& flags,
                   const std::vector<std::string>& arguments);

// Prints to stdout; returns 70 if it cannot be written.
int PrintView(const std::string& text);
// Prints the error and returns the exit code for it.
int ViewError(absl::string_view message);

}  // namespace composer
