// Implements `composer validate job.yaml`: finds everything that is wrong with a job without training it, as far as
// that is possible.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "job/job.h"
#include "trainer/core/dataset.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// Reads the file, opens the data, builds the model without memory for its parameters, sends a few samples through it,
// and makes optimizer and schedules. Writes nothing. Returns a line about what was found, or ReadJob's errors with
// file, line and column.
absl::StatusOr<std::string> ValidateJob(const JobSource& source, const Environment& env);

// Returns a factory of the job's model as its algorithms change it before training. Throws what they throw.
ModelFactory ModelWithChanges(const Job& job);

// Returns the training data, which is open, as a launch of one rank would read it. Throws as MakeLoader does.
std::shared_ptr<Loader> LoaderOfOneRank(const TrainerOptions& options);

}  // namespace composer
