// What this node offers to workers: CPUs, GPUs and a free port.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"

namespace composer {

// Returns the CPUs that this process may run on (its affinity mask, which cgroups and taskset set).
std::vector<int> AllowedCpus();

// Returns the CPUs of one of `workers`: equal contiguous shares, of which the first ones are one larger if the count
// does not divide. Empty (no binding) when there is one worker or there are fewer CPUs than workers.
std::vector<int> CpuShare(const std::vector<int>& cpus, int workers, int local_rank);

// Returns the number of GPUs that a worker could use: those of CUDA_VISIBLE_DEVICES if it is set, else the device files
// nvidia0, nvidia1 … in `device_folder`. Needs no driver library.
int VisibleGpus(const Environment& environment, const std::string& device_folder = "/dev");

// Returns a TCP port that was free on every address a moment ago, for scripts that bind MASTER_PORT themselves. Avoids
// the kernel's ephemeral port range unless all other ports are taken, because such a port may be gone when the script
// binds it.
absl::StatusOr<int> FreePort();

}  // namespace composer
