// Runs one rank: attaches to the launcher, forms the process group, builds the job, trains or runs a command that only
// uses the model, and reports how it ended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "config/job_command.h"
#include "job/job.h"

namespace composer {

// Runs the job and returns the exit code (exit_codes.h). Errors go to stderr as "error: …" and to the launcher. The
// caller should leave by _exit: process group and gRPC threads are not torn down. Without a command it trains.
int RunWorker(const JobSource& source, const Environment& env, const JobCommand* command = nullptr);

}  // namespace composer
