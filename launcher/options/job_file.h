// Whose run folder is this? The default run name is the name of the job's file, so that two projects with a
// train.yaml each would continue each other's run: the folder remembers the file that it belongs to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace composer {

// kInvalidArgument: the folder belongs to another file that is still there. OK also when nothing is remembered, or a
// file that is gone (it was moved).
absl::Status CheckJobFile(const std::string& run_folder, const std::string& job_file);

// Remembers `job_file`. The folder is there.
absl::Status RememberJobFile(const std::string& run_folder, const std::string& job_file);

}  // namespace composer
