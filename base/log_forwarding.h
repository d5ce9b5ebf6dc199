// Redirects the lines of base/log.h when writing to stderr must not make anybody wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "absl/strings/string_view.h"

namespace composer {

// From now on passes each line to `write` instead of stderr, with its "\n" and with control characters escaped; null
// restores stderr. `write` is called from any thread, one call at a time. Messages that end the process (CHECK, FATAL)
// always go to stderr.
void SendLogsTo(std::function<void(absl::string_view line)> write);

}  // namespace composer
