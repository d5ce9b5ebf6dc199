// The keys of a job that say how it trains: its length, seed, device, precision, collectives and parallelism.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config_map.h"
#include "job/job.h"

namespace composer {

// Reads into `job` and job.options. `trains` false: the keys may be missing.
void ReadTraining(ConfigMap root, bool trains, Job& job);

}  // namespace composer
