// Where the lines of base/log.h go when stderr may not make anybody wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "absl/strings/string_view.h"

namespace composer {

// From now on `write` gets each line, with its "\n" and control characters escaped, instead of stderr; null: stderr again.
// It is called from any thread, one call at a time. What ends the process (CHECK, FATAL) goes to stderr in any case.
void SendLogsTo(std::function<void(absl::string_view line)> write);

}  // namespace composer
