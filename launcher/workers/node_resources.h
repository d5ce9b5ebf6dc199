// What this node offers to workers: CPUs, GPUs, a free port.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"

namespace composer {

// The CPUs this process may run on (its affinity mask, which cgroups and taskset set).
std::vector<int> AllowedCpus();

// The CPUs of one of `workers`: equal contiguous shares, the first ones one larger when it does not divide. Empty (bind to
// none) when there is one worker or when there are fewer CPUs than workers.
std::vector<int> CpuShare(const std::vector<int>& cpus, int workers, int local_rank);

// GPUs that a worker could use: those of CUDA_VISIBLE_DEVICES when it is set, else the device files nvidia0, nvidia1 … in
// `device_folder`. Needs no driver library.
int VisibleGpus(const Environment& environment, const std::string& device_folder = "/dev");

// A TCP port that was free on every address a moment ago, for scripts that bind MASTER_PORT themselves. Not one of the
// range from which the kernel numbers outgoing connections, unless all others are taken: such a port may be gone when the
// script comes to bind it.
absl::StatusOr<int> FreePort();

}  // namespace composer
