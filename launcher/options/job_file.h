// Records which job file a run folder belongs to. The default run name is the name of the job's file, so without this
// record two projects with a train.yaml each would continue each other's run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace composer {

// Returns kInvalidArgument if the folder belongs to another file that still exists. Returns OK also if nothing is
// recorded, or if the recorded file is gone (it was moved).
absl::Status CheckJobFile(const std::string& run_folder, const std::string& job_file);

// Records `job_file`. The folder must exist.
absl::Status RememberJobFile(const std::string& run_folder, const std::string& job_file);

}  // namespace composer
