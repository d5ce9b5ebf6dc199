// `composer top`: a table of a job's ranks that is drawn anew each second, with keys to save a checkpoint, to
// profile, to see the stacks of its threads and to drain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "launcher/control/control_client.h"

namespace composer {

// Shows until `q`, Ctrl-C or the job's end. Without a terminal it prints one frame. `local`: the ranks' processes and
// logs are on this machine. Restores the terminal. Returns the errors of ControlClient::Status.
absl::Status ShowTop(ControlClient& client, bool local);

}  // namespace composer
