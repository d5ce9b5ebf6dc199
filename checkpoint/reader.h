// Finds the newest valid checkpoint and loads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/manifest.h"
#include "checkpoint/rank_exchange.h"
#include "checkpoint/state_dict.h"
#include "storage/object_store.h"

namespace composer {

struct CheckpointChoice {
  std::string checkpoint;            // `ep1-ba20`; "" when there is no valid one
  std::vector<std::string> refused;  // newer ones, newest first: what is wrong with each, with its path
};

// The newest checkpoint of the folder whose every checksum holds. Errors: only when the folder cannot be listed.
absl::StatusOr<CheckpointChoice> FindNewestValid(ObjectStore& store);

// The same on all ranks: rank 0 looks and tells the others.
absl::StatusOr<CheckpointChoice> ChooseCheckpoint(ObjectStore& store, RankExchange& exchange);

// Copies the checkpoint's tensors into those of `into` (any device and strides; same names, shapes and dtypes, else
// kFailedPrecondition with all that is missing, unexpected or different, and nothing changed) and replaces its small
// state. Every byte is verified again before it is copied: kDataLoss when it changed meanwhile; tensors copied before
// that have their new values.
absl::Status LoadCheckpoint(ObjectStore& store, const std::string& checkpoint, StateDict* into);

// The same into new tensors on the CPU.
absl::StatusOr<StateDict> LoadNewStateDict(ObjectStore& store, const std::string& checkpoint);

}  // namespace composer
