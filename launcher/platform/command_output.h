// Runs a system program to completion and returns what it prints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/env.h"

namespace composer {

inline constexpr size_t kMaxCommandOutput = 1 << 20;

// argv[0] is a path; no shell is involved. stdin is /dev/null; stdout and stderr are read together, and anything after
// 1 MiB is dropped. The program starts with no signal blocked. Returns kUnavailable if it could not be started, failed
// (its first line is in the message), or took longer than `limit` and was killed.
absl::StatusOr<std::string> CommandOutput(const std::vector<std::string>& argv, const Environment& environment,
                                          absl::Duration limit);

}  // namespace composer
