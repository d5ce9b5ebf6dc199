// Sets up glog once in main. Everything below the composition roots may use LOG(INFO|WARNING|ERROR) after including
// this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <glog/logging.h>

#include <functional>

#include "absl/strings/string_view.h"

namespace composer {

// Sends logs to stderr. `min_severity`: 0 info, 1 warning, 2 error. Installs no signal handler. Must be called once,
// before threads are started.
void InitLogging(absl::string_view program, int min_severity);

// Sends logs to stderr unless glog has been set up, by InitLogging or by the program that this library is part of: such
// a program must set it up first. Without either, glog complains at its first line. Thread-safe.
void EnsureLogging();

// From now on passes each line to `write` instead of stderr, with its "\n" and with control characters escaped, for
// when writing to stderr must not make anybody wait; null restores stderr. `write` is called from any thread, one call
// at a time. Messages that end the process (CHECK, FATAL) always go to stderr.
void SendLogsTo(std::function<void(absl::string_view line)> write);

}  // namespace composer
