// Joins the trace files of ranks and windows into one, by lines: any size, no JSON tree in memory. Only files that
// trace_file.h describes are taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace composer {

// Times are moved to the earliest base of all, so that events of different days stand right. kInvalidArgument naming
// the file that is not a whole trace of ours, kNotFound, or an error of writing; `output` is as it was then.
absl::Status MergeTraces(const std::vector<std::string>& inputs, const std::string& output);

// The traces of single ranks in a folder: *.json that begin as ours do and are not themselves merged; sorted by name.
absl::StatusOr<std::vector<std::string>> TracesIn(const std::string& folder);

}  // namespace composer
