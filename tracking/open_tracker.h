// Trackers by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "net/http.h"
#include "tracking/tracker.h"

namespace composer {

// options.name is "mlflow", "wandb" or "slack"; `http` is used by those with a server. kInvalidArgument says which
// setting or variable is wrong. Nothing is sent yet. Requests end soon after `given_up` becomes true.
absl::StatusOr<std::unique_ptr<Tracker>> OpenTracker(const TrackerOptions& options, const Environment& environment,
                                                     std::shared_ptr<Http> http,
                                                     std::shared_ptr<const std::atomic<bool>> given_up);

}  // namespace composer
