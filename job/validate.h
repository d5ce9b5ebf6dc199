// Implements `composer validate job.yaml`: finds everything that is wrong with a job without training it, as far as
// that is possible.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "job/job.h"

namespace composer {

// Reads the file, opens the data, builds the model without memory for its parameters, sends a few samples through it,
// and makes optimizer and schedules. Writes nothing. Returns a line about what was found, or ReadJob's errors with
// file, line and column.
absl::StatusOr<std::string> ValidateJob(const JobSource& source, const Environment& env);

}  // namespace composer
