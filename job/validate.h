// `composer validate job.yaml`: everything that can be found wrong with a job without training it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "job/job.h"

namespace composer {

// Reads the file, opens the data, builds the model without memory for its parameters, sends a few samples through it,
// and makes optimizer and schedules. Writes nothing. A line of what was found; else as ReadJob, with file, line and
// column.
absl::StatusOr<std::string> ValidateJob(const JobSource& source, const Environment& env);

}  // namespace composer
