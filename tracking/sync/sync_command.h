// `composer sync RUN ...`: sends what trackers of ended runs have not received.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "net/http.h"

namespace composer {

// Sends everything of each run's trackers over `http` and prints a line for each. Returns 0, 64 for a mistake of the
// user (no such run, a run that is still going), or 69 when something could not be sent.
int SyncCommand(const std::vector<std::string>& arguments, const Environment& environment, std::shared_ptr<Http> http);

}  // namespace composer
