// Implements composer status, top, save, profile, stacks, drain, stop and logs. Each takes a run name, a run folder or
// a launcher's pid. Without one, status, top and logs mean this user's only job on this machine; the others never
// guess: they require a job or --all, and print what they did on stdout. `--at HOST:PORT` addresses a launcher that has
// a --control-port, with the job's token or certificates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/options.h"

namespace composer {

// Returns the flags of one command, for completion.
std::vector<Option> ControlCommandOptions(const std::string& command);

// Returns the names of this user's jobs on this machine, one per line, for completion.
std::string RunningJobs(const Environment& environment);

// `command` is one of the above. Returns the exit code: 0, 64 (wrong usage, or
// several jobs match) or 69 (no such job, or no answer).
int RunControlCommand(const std::string& command, const std::vector<std::string>& words,
                      const Environment& environment);

}  // namespace composer
