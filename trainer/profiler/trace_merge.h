// Joins the trace files of ranks and windows into one, line by line: any size works, since no JSON tree is kept in
// memory. Only files as described in trace_file.h are accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace composer {

// Times are shifted to the earliest base of all files, so that events of different days are placed correctly. Returns
// kInvalidArgument that names the file that is not a whole trace of ours, kNotFound, or a write error; `output` is then
// unchanged.
absl::Status MergeTraces(const std::vector<std::string>& inputs, const std::string& output);

// Returns the traces of single ranks in a folder, sorted by name: the *.json files that begin like ours and are not
// merged traces themselves.
absl::StatusOr<std::vector<std::string>> TracesIn(const std::string& folder);

}  // namespace composer
