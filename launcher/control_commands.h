// composer status, save, drain, stop and logs. Each takes a run name, a run folder or a launcher's pid; without one it is the
// job of this user that runs on this machine. `--at HOST:PORT` asks a launcher that has a --control-port, with the job's
// token or certificates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"

namespace composer {

// `command`: "status", "save", "drain", "stop" or "logs". Returns the exit code: 0, 64 (wrong usage, several jobs match), 69 (no such job, no
// answer).
int RunControlCommand(const std::string& command, const std::vector<std::string>& words,
                      const Environment& environment);

}  // namespace composer
