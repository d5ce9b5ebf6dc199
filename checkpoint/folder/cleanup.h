// Removes from a folder of checkpoints what is no longer wanted. Always the manifest first, so that what a crash leaves
// half deleted is an interrupted attempt, not a torn checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/format/checkpoint_name.h"
#include "storage/object_store.h"

namespace composer {

// Those with a manifest, whether it is valid or not; oldest first.
absl::StatusOr<std::vector<CheckpointName>> CommittedCheckpoints(ObjectStore& store);

// Attempts that their step's manifest does not name (`ep0-ba4/attempt-…`): of a save that is under way, or was cut off. Those
// of a step whose manifest cannot be read are not told apart, and not among them.
absl::StatusOr<std::vector<std::string>> UnfinishedAttempts(ObjectStore& store);

// One checkpoint: its manifest, then the attempt that it names, and the remains of cut-off writes when nothing else is left.
// Not another attempt at its step, which may be a save under way; when the manifest cannot be read, all that is there.
absl::Status DeleteCheckpoint(ObjectStore& store, CheckpointName name);

// Whose leftovers a clean-up may take.
struct CleanupScope {
  std::string run_name;  // the attempts of this run, and no other's
  std::function<absl::Status()>
      may_write;  // does this process still hold the folder (lease.h)? Empty: nobody else saves
};

// What saves of this run left that never committed: attempts that their step's manifest does not name, and remains of
// cut-off writes. Attempts of other runs stay. A step whose manifest cannot be read is left alone: it may be needed to see
// what happened, and is replaced when its step is saved again. may_write is asked after the list was made, so that a
// launch that has taken over meanwhile has nothing in it; its error is returned, and nothing deleted.
absl::Status DeleteInterrupted(ObjectStore& store, const CleanupScope& scope);

// After `just_saved` was committed: other attempts at that step, whosever they are (the name is taken: they can commit no
// more; one of them may be what a damaged checkpoint consisted of), and the checkpoints that retention.h names.
// may_write: as above.
absl::Status DeleteOld(ObjectStore& store, CheckpointName just_saved, int keep, const CleanupScope& scope);

}  // namespace composer
