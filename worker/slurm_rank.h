// Ranks of a bare `srun composer_worker job.yaml`: what the other launchers' variables would say, from those of a Slurm
// step. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// The environment with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK and, unless set, MASTER_ADDR (the step's
// first node) and MASTER_PORT (made of job and step, so that two of them on a node differ) added. As given when RANK is
// set, or when this is no task of a step with several.
Environment WithSlurmRank(const Environment& environment);

// "node[01-03,07],x" -> "node01"; "" for "".
std::string FirstSlurmHost(absl::string_view nodelist);

// How many tasks the node of that index has in "2(x3),1"; 0: the text does not say.
int SlurmTasksOfNode(absl::string_view tasks_per_node, int node);

}  // namespace composer
