// Starts a job: the composition root. Everything that forks comes first, then gRPC and threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/env.h"
#include "launcher/options/launch_options.h"
#include "launcher/options/program.h"

namespace composer {

// Runs the program on this node to its end. Returns the exit code. The caller must leave with _exit, because a thread
// may still wait for a rendezvous that is gone.
int Launch(const LaunchOptions& options, const Program& program, const Environment& environment);

}  // namespace composer
