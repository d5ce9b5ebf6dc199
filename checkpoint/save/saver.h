// Saver saves checkpoints, all ranks together, into one folder of them (the store).
//
// A save writes below a path of its own, `ep1-ba20/attempt-<run and random>/`, one file per rank, each synced; then
// rank 0 creates the manifest, and at that moment the checkpoint comes into being. Any earlier failure leaves all older
// checkpoints as they were, and its leftovers are cleaned up at once or, after a crash, by the first save of the next
// run. If a step has a manifest already, the new one replaces it atomically when the old one is refused (damaged) or is
// of this run; anything else needs `overwrite`.
//
// Save is blocking (async_saver.h is not): it returns on every rank once the checkpoint is committed, or failed, with
// the same Status everywhere. Threads: one at a time. No exception leaves Save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/state_dict.h"
#include "checkpoint/save/snapshot.h"
#include "storage/object_store.h"

namespace composer {

struct SaverOptions {
  std::string run_name;
  int keep = -1;                                 // the newest `keep` stay (retention.h); -1: all
  KeepBest best;                                 // stay, too; with a count, keep < 1 is 1
  bool overwrite = false;                        // replace a valid checkpoint of the same step that another run wrote
  std::string latest = std::string(kLatestKey);  // the hint's key; "": none
  Clock* clock = &RealClock::Get();
  // Returns whether this launch still holds the folder (FolderLease::Check). Called on rank 0 before a save, before its
  // commit and before anything is deleted; an error becomes the save's. Empty means that nobody else saves there.
  std::function<absl::Status()> may_write;
};

class Saver {
 public:
  // `store` is the folder of checkpoints as this rank sees it: the same one on all ranks. It must outlive the saver.
  Saver(ObjectStore& store, RankExchange exchange, SaverOptions options);

  // Returns the checkpoint's location (`…/checkpoints/ep1-ba20`). Errors name the rank, the path and the cause:
  // kResourceExhausted (no room), kInvalidArgument (state that cannot be stored), kAlreadyExists (see above),
  // kUnavailable (a rank or the store is gone).
  absl::StatusOr<std::string> Save(const StateDict& state, CheckpointName step, int64_t samples);
  // Same as Save, with what this rank has copied; an error `taken` instead of it becomes the save's on all ranks.
  absl::StatusOr<std::string> SaveSnapshot(const absl::Status& taken, const Snapshot& snapshot, CheckpointName step,
                                           int64_t samples);

  // Returns ShardedBytes (writer.h) of every rank, for a fair share of the whole tensors; empty when no tensor is
  // sharded. Ranks exchange it only once, all together: the states that one saver saves are sharded alike.
  absl::StatusOr<std::vector<int64_t>> ShardedBytesOfAll(const StateDict& state);

 private:
  absl::StatusOr<std::string> StartAttempt(CheckpointName step);
  absl::StatusOr<std::string> WriteOwnPart(const absl::Status& taken, const Snapshot& snapshot,
                                           const std::string& attempt_key);
  absl::StatusOr<std::string> Commit(absl::Span<const std::string> names, Manifest manifest,
                                     absl::Span<const std::string> parts);
  absl::Status CheckFilesAreThere(const Manifest& manifest);
  absl::Status PutManifest(const std::string& name, absl::string_view text);
  absl::Status MayWrite() const;
  void CleanUp();
  void AfterCommit(CheckpointName step, const std::map<std::string, std::string>& small);

  ObjectStore& store_;
  RankExchange exchange_;
  const SaverOptions options_;
  bool cleaned_up_ = false;
  std::vector<int64_t> sharded_bytes_;  // empty: not exchanged yet
};

}  // namespace composer
