// composer status, save, drain, stop and logs. Each takes a run name, a run folder or a launcher's pid. Without one, status
// and logs mean the only job of this user that runs on this machine; save, drain and stop never guess: they want a job or
// --all, and say what they did on stdout. `--at HOST:PORT` asks a launcher that has a --control-port, with the job's token
// or certificates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/options.h"

namespace composer {

// The flags of one of them, for completion.
std::vector<Option> ControlCommandOptions(const std::string& command);

// The names of this user's jobs on this machine, one a line, for completion.
std::string RunningJobs(const Environment& environment);

// `command`: "status", "save", "drain", "stop" or "logs". Returns the exit code: 0, 64 (wrong usage, several jobs match), 69 (no such job, no
// answer).
int RunControlCommand(const std::string& command, const std::vector<std::string>& words,
                      const Environment& environment);

}  // namespace composer
