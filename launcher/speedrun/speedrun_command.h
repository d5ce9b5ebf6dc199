// `composer speedrun`: how many steps and how much CPU time a recipe takes to a fixed quality, beside a plain run, over
// several seeds. Each run is a job of its own, started one after the other; a folder has a line for each that is
// finished, and the same command goes on behind them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"

namespace composer {

// Returns 0, 64 for wrong arguments, or the exit code of a run that failed or was interrupted.
int SpeedrunCommand(const std::vector<std::string>& arguments, const Environment& environment,
                    const std::string& worker_path);

}  // namespace composer
