// Parses Slurm's compressed lists, the format of SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE. Pure: does not call
// `scontrol`, which is often missing in containers; tests/launcher/platform/slurm_nodelist_test.cc compares with its
// output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

inline constexpr size_t kMaxSlurmListBytes = 1 << 20;
inline constexpr size_t kMaxSlurmNodes = 100'000;  // more is refused, as are lists whose names fill 64 MiB

// "n[001-003,7],gpu-[1-2]-[3,4],x" becomes n001 n002 n003 n7 gpu-1-3 gpu-1-4 gpu-2-3 gpu-2-4 x: the order of `scontrol
// show hostnames`, with duplicates kept. A range has the width of its first number ([08-11], but [8-010] is 8 9 10).
// Unlike in Slurm 22.05, a name may continue after its last bracket (n[1-2]-ib). Returns kInvalidArgument, naming the
// part, if the text is empty, malformed or beyond the limits.
absl::StatusOr<std::vector<std::string>> ParseNodeList(absl::string_view text);

// "8(x4),2" becomes 8 8 8 8 2. Every count is from 1 to 65536. Returns the errors of ParseNodeList.
absl::StatusOr<std::vector<int>> ParseTasksPerNode(absl::string_view text);

}  // namespace composer
