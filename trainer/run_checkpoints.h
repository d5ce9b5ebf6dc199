// When a run saves, what it saves, and where it starts from: the trainer's side of checkpoint/.
//
// Saved: model parameters and buffers (rank 0's), optimizer state, timestamp, seed, data settings, states of callbacks and algorithms.
// Not saved, since they are functions of the timestamp: schedules, sample order, random numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/saver.h"
#include "checkpoint/state_dict.h"
#include "storage/object_store.h"
#include "trainer/core/state.h"
#include "trainer/core/supervision.h"
#include "trainer/parallel/communicator.h"
#include "trainer/trainer_options.h"

namespace composer {

// What the checkpoint says of the data; the run must go on with the same.
struct SavedDataSettings {
  int64_t global_train_batch_size = 0;
  int64_t dataset_size = 0;
};

class RunCheckpoints {
 public:
  // References must outlive this object; store may be null for one rank.
  RunCheckpoints(const SaveOptions& options, Communicator& communicator, c10::intrusive_ptr<c10d::Store> store,
                 Supervision& supervision);

  // With autoresume and a save_folder: loads the newest valid checkpoint into state and returns its location; "" when there is none. Newer ones
  // that were refused are named in a warning with the reason. All ranks load the same one. data: filled in from it.
  // kInvalidArgument when it does not fit the model or optimizer, with the tensors that are missing, unexpected or of another shape.
  absl::StatusOr<std::string> Resume(State& state, SavedDataSettings& data);

  void SetDataSettings(const SavedDataSettings& data) { data_ = data; }

  // Epoch intervals fire at kEpochCheckpoint, all others at kBatchCheckpoint.
  bool IsDue(Event event, const State& state) const;
  // Saves unless this very batch and epoch is saved already; without a save_folder does nothing. Returns on every rank after the commit. Throws
  // StatusError: kResourceExhausted for a full disk; older checkpoints stay as they are.
  void SaveNow(State& state);
  // The save at the end of the run: none when this batch is saved already, be it before the end of its epoch.
  void SaveAtEnd(State& state);

 private:
  StateDict Collect(State& state) const;
  absl::Status Restore(const StateDict& loaded, State& state, SavedDataSettings& data) const;

  SaveOptions options_;
  Communicator& communicator_;
  Supervision& supervision_;
  std::unique_ptr<ObjectStore> folder_;  // null: no checkpoints
  RankExchange exchange_;
  std::unique_ptr<Saver> saver_;
  SavedDataSettings data_;
  std::optional<CheckpointName> last_saved_;
};

}  // namespace composer
