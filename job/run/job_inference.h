// Builds a Trainer of a job for a command that only uses its model (config/job_command.h): with the job's model,
// algorithms, precision, sharding and evaluations, and the weights of a checkpoint, but without optimizer state,
// callbacks (but the averages of in-context tasks) and loggers, and without a place to save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "config/job_command.h"
#include "job/job.h"
#include "trainer/trainer.h"

namespace composer {

// `job` was read with JobSource::trains false. Opens the data of the evaluations if the command reads them. Returns
// kInvalidArgument, naming the key, when the job lacks what the command needs.
absl::StatusOr<TrainerOptions> BuildInferenceOptions(Job job, const JobPlace& place, const JobCommand& command);

// Creates the trainer, which loads the checkpoint. A checkpoint that is not there is kInvalidArgument, naming the
// argument or save_folder.
absl::StatusOr<std::unique_ptr<Trainer>> CreateForInference(TrainerOptions options, const JobCommand& command);

// The evaluation whose data `composer predict` reads.
absl::StatusOr<EvaluatorOptions> ChooseDataloader(const std::vector<EvaluatorOptions>& evaluators,
                                                  const std::string& label);

// What `composer generate` continues, and how: the command's words over callbacks.generate. The tokenizer (may be null)
// is where --chat finds its template when the callback names none.
absl::StatusOr<GenerateCallback> ChooseGeneration(const std::vector<GenerateCallback>& callbacks, uint64_t seed,
                                                  const Tokenizer* tokenizer, const JobCommand& command);

}  // namespace composer
