// `seed: random`: a seed that is drawn when a run is started first, and kept in its run folder, so that every rank,
// every restart and every later launch of the run have the same. Composer draws one when none is given; here the
// default is 0, so that a job file says all of its run. Source: mosaicml composer/utils/reproducibility.py,
// get_random_seed().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"

namespace composer {

class Communicator;

// Returns the seed that is kept in the folder; when there is none, draws one below 2^32 and keeps it. kInvalidArgument
// when what is kept is not a number.
absl::StatusOr<uint64_t> SeedOfRun(const std::string& run_folder);

// Makes the seed of rank 0's run folder the job's wherever it is to be settled. A collective if it is.
absl::Status SettleSeed(Job& job, Communicator& communicator);

}  // namespace composer
