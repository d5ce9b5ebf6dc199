// The ranks of a program that srun or mpirun has started: derives the variables that torchrun sets from those of a
// Slurm step, of Open MPI, or of MPICH and Intel MPI (Hydra). Pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Returns the environment with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK (Slurm only) and, unless set,
// MASTER_ADDR (the step's first node; this one when mpirun uses no other) and MASTER_PORT (Slurm only: derived from job
// and step, so that two of them on one node differ). Returns it unchanged when RANK is set, or when this is not one of
// several tasks.
Environment WithRankVariables(const Environment& environment);

// Maps "node[01-03,07],x" to "node01"; "" to "".
std::string FirstSlurmHost(absl::string_view nodelist);

// Returns how many tasks the node with that index has in "2(x3),1"; 0 when the text does not say.
int SlurmTasksOfNode(absl::string_view tasks_per_node, int node);

}  // namespace composer
