// Removes from a folder of checkpoints what is no longer wanted. Always the manifest first, so that what a crash leaves
// half deleted is an interrupted attempt, not a torn checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_name.h"
#include "storage/object_store.h"

namespace composer {

// Those with a manifest, whether it is valid or not; oldest first.
absl::StatusOr<std::vector<CheckpointName>> CommittedCheckpoints(ObjectStore& store);

// What saves left that never committed: attempts that their step's manifest does not name, remains of cut-off writes. A
// step whose manifest cannot be read is left alone: it may be needed to see what happened, and is replaced when its
// step is saved again. Must not run beside a save into the same folder.
absl::Status DeleteInterrupted(ObjectStore& store);

// After `just_saved` was committed: other attempts at that step, and the checkpoints that retention.h names.
absl::Status DeleteOld(ObjectStore& store, CheckpointName just_saved, int keep);

}  // namespace composer
