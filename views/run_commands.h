// The commands that show runs. They read run folders and nothing else: no server, no job has to be running.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace composer {

// These take the words after the command's name, print to stdout, and return the exit code: 0, or 64 with a message
// about what the user has to change.
int RunsCommand(const std::vector<std::string>& arguments);
int PlotCommand(const std::vector<std::string>& arguments);
int ReportCommand(const std::vector<std::string>& arguments);

// Returns the flags of "runs", "plot" or "report", "--json" and so on, for completion.
std::vector<std::string> FlagsOfView(const std::string& command);

// Returns the folder of a run that the user named: a path, or a name below runs/. kNotFound says what there is.
absl::StatusOr<std::string> FindRunFolder(const std::string& given);

}  // namespace composer
