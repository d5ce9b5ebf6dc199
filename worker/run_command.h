// Runs a command that uses a job's model without training it, on every rank; rank 0 prints or writes what comes out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "config/job_command.h"
#include "trainer/trainer.h"

namespace composer {

// `options` are complete, with the ranks' communicator. The trainer is created in `trainer`, which outlives the call.
// Returns the trainer's errors, and kInvalidArgument naming an argument or a key.
absl::Status RunJobCommand(TrainerOptions options, const JobCommand& command, std::unique_ptr<Trainer>& trainer);

}  // namespace composer
