// Cleanup removes from a folder of checkpoints what is no longer wanted. It always deletes the manifest first, so that
// what a crash leaves half deleted is an interrupted attempt, not a torn checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/format/checkpoint_name.h"
#include "storage/object_store.h"

namespace composer {

// Returns the checkpoints with a manifest, whether it is valid or not; oldest first.
absl::StatusOr<std::vector<CheckpointName>> CommittedCheckpoints(ObjectStore& store);

// Returns the attempts that their step's manifest does not name (`ep0-ba4/attempt-…`): of a save that is running or was
// interrupted. Leaves out a step whose manifest cannot be read, since its attempts cannot be told apart.
absl::StatusOr<std::vector<std::string>> UnfinishedAttempts(ObjectStore& store);

// Deletes one checkpoint: its link (checkpoint_link.h), its manifest, then the attempt that it names, and leftovers of
// interrupted writes when nothing else remains. Keeps another attempt at its step, which may be a running save; when
// the manifest cannot be read, deletes everything.
absl::Status DeleteCheckpoint(ObjectStore& store, CheckpointName name);

// Says whose leftovers a cleanup may delete.
struct CleanupScope {
  std::string run_name;  // only attempts of this run
  // Returns whether this process still holds the folder (lease.h). Empty means that nobody else saves.
  std::function<absl::Status()> may_write;
};

// Deletes what saves of this run left without committing: attempts that their step's manifest does not name, and
// leftovers of interrupted writes. Attempts of other runs stay. A step whose manifest cannot be read is left alone: it
// may be needed to see what happened, and is replaced when its step is saved again. may_write is called after the list
// was made, so that the list has nothing of a launch that has taken over meanwhile; its error is returned and nothing
// deleted.
absl::Status DeleteInterrupted(ObjectStore& store, const CleanupScope& scope);

// Must be called after `just_saved` was committed. Deletes other attempts at that step, of any run (the name is taken,
// so they cannot commit any more; one of them may be what a damaged checkpoint consisted of), and the checkpoints that
// retention.h names. may_write is called as above. With best.count > 0 the best stay, too; the manifests of all that
// are older are then read, and one that cannot be read stays.
absl::Status DeleteOld(ObjectStore& store, CheckpointName just_saved, int keep, const CleanupScope& scope,
                       const KeepBest& best = {});

}  // namespace composer
