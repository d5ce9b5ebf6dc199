// When a run saves and where it starts from: the trainer's side of checkpoint/. What is saved: saved_state.h.
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
#include "trainer/saved_state.h"
#include "trainer/trainer_options.h"

namespace composer {

class RunCheckpoints {
 public:
  // References must outlive this object; store may be null for one rank.
  RunCheckpoints(const SaveOptions& options, Communicator& communicator, c10::intrusive_ptr<c10d::Store> store,
                 Supervision& supervision);

  // Prepares saving; the first call. With autoresume and a save_folder: loads the newest valid checkpoint into state and returns its location; "" when there is none. Newer ones
  // that were refused are named in a warning with the reason. All ranks load the same one. data: filled in from it.
  // kInvalidArgument when it does not fit the model or optimizer, with the tensors that are missing, unexpected or of another shape.
  absl::StatusOr<std::string> Resume(State& state, SavedDataSettings& data);

  // load.load_path into state. Returns the location; "" when there is no load_path. What does not match: as Resume.
  absl::StatusOr<std::string> LoadFrom(const LoadOptions& load, State& state, SavedDataSettings& data);

  void SetDataSettings(const SavedDataSettings& data) { data_ = data; }

  // Epoch intervals fire at kEpochCheckpoint, those in iterations at kIterationCheckpoint, all others at
  // kBatchCheckpoint.
  bool IsDue(Event event, const State& state) const;
  // Saves unless this very batch and epoch is saved already; without a save_folder does nothing. Returns on every rank after the commit. Throws
  // StatusError: kResourceExhausted for a full disk; older checkpoints stay as they are.
  void SaveNow(State& state);
  // The save at the end of the run: none when this batch is saved already, be it before the end of its epoch.
  void SaveAtEnd(State& state);
  // The checkpoint of this run that was saved last; "" when none was.
  const std::string& last_location() const { return last_location_; }

 private:
  absl::Status Open();
  StateDict Collect(const State& state) const;

  SaveOptions options_;
  Communicator& communicator_;
  Supervision& supervision_;
  std::shared_ptr<ObjectStore> folder_;  // null: no checkpoints
  RankExchange exchange_;
  std::unique_ptr<Saver> saver_;
  SavedDataSettings data_;
  std::optional<CheckpointName> last_saved_;
  std::string last_location_;
};

}  // namespace composer
