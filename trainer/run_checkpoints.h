// When a run saves, what it saves, and where it starts from: the trainer's side of checkpoint/.
//
// Saved: model parameters and buffers (rank 0's), optimizer state, timestamp, seed, data settings, states of callbacks
// and algorithms. Not saved, since they are functions of the timestamp: schedules, sample order, random numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/saver.h"
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
  RunCheckpoints(const SaveOptions& options, Communicator& communicator, c10d::Store* store, Supervision& supervision);
  ~RunCheckpoints();

  // With autoresume and a save_folder: loads the newest valid checkpoint into state and returns its path; "" when there
  // is none. Refused newer ones are named in a warning with the reason. All ranks load the same one. data: filled in
  // from it. kInvalidArgument when it does not fit the model or optimizer, with the tensors that are missing,
  // unexpected or of another shape.
  absl::StatusOr<std::string> Resume(State& state, SavedDataSettings& data);

  void SetDataSettings(const SavedDataSettings& data) { data_ = data; }

  // Epoch intervals fire at kEpochCheckpoint, all others at kBatchCheckpoint.
  bool IsDue(Event event, const State& state) const;
  // Saves unless this very batch and epoch is saved already. Returns on every rank after the commit. Throws
  // StatusError: kResourceExhausted for a full disk; older checkpoints stay as they are.
  void SaveNow(State& state);
  void SaveAtEnd(State& state) { SaveNow(state); }

 private:
  SaveOptions options_;
  Communicator& communicator_;
  c10d::Store* store_;
  Supervision& supervision_;
  SavedDataSettings data_;
  std::string last_saved_;
};

}  // namespace composer
