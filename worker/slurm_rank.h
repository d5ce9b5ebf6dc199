// The ranks of a bare `srun composer_worker job.yaml`: derives the variables that other launchers set from those of a
// Slurm step. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Returns the environment with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK and, unless set, MASTER_ADDR
// (the step's first node) and MASTER_PORT (derived from job and step, so that two of them on one node differ). Returns
// it unchanged when RANK is set, or when this is not a task of a step with several tasks.
Environment WithSlurmRank(const Environment& environment);

// Maps "node[01-03,07],x" to "node01"; "" to "".
std::string FirstSlurmHost(absl::string_view nodelist);

// Returns how many tasks the node with that index has in "2(x3),1"; 0 when the text does not say.
int SlurmTasksOfNode(absl::string_view tasks_per_node, int node);

}  // namespace composer
