// Builds the trainer of a job that was read: opens its data, then makes model, callbacks and loggers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"
#include "job/job_place.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// Opens the data: options.tokenizer, options.train.dataset and the evaluations' datasets. An error begins with the key:
// "train_dataloader.path: …".
absl::Status OpenData(Job& job, const JobPlace& place);

// Opens the data of the evaluations only, like OpenData.
absl::Status OpenEvaluationData(Job& job, const JobPlace& place);

// Builds model, data, optimizer, callbacks and loggers. Throws what LibTorch throws (bad sizes); returns a Status for
// data that cannot be read.
absl::StatusOr<TrainerOptions> BuildTrainerOptions(Job job, const JobPlace& place);

}  // namespace composer
