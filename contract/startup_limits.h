// How long a worker may stay in each phase of its start-up without making progress. The launcher enforces this
// (launcher/workers/startup_watch.h); the flag `--startup-limits` and the YAML key `startup_limits` set the limits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

// Later phases have longer limits: a rank that waits for one stuck in an earlier phase must not be blamed before it,
// even when the two are on different nodes.
struct StartupLimits {
  absl::Duration attach = absl::Seconds(60);        // from the spawn to the first heartbeat
  absl::Duration group = absl::Seconds(300);        // until the ranks are connected
  absl::Duration build = absl::Seconds(600);        // until the model, data and optimizer are built
  absl::Duration load = absl::Seconds(900);         // until the checkpoint is loaded
  absl::Duration first_step = absl::Seconds(1200);  // until the first optimizer step is done
};

// Returns "attach", "group", "build", "load", "first_step".
std::vector<std::string> StartupPhaseNames();

// Sets one limit; 0 seconds means none. kInvalidArgument: there is no such phase (names the nearest), or the limit is
// not from 0 to 30 days.
absl::Status SetStartupLimit(absl::string_view phase, double seconds, StartupLimits& limits);

// Sets the limits that `text` names: "attach=30,first_step=3600". kInvalidArgument as above.
absl::Status SetStartupLimits(absl::string_view text, StartupLimits& limits);

}  // namespace composer
