// RunCheckpoints decides when a run saves and where it starts from: the trainer's side of checkpoint/. saved_state.h
// says what is saved.
//
// With save_async a save at an interval blocks training only while this rank's share of the state is copied; a
// SaveThread writes and commits it. One is in flight at a time (SaveOptions::save_overlap). Its result is reported by
// Poll or Finish, at the end of a batch; nothing here throws in between. Threads: all methods on the training thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/random.h"
#include "checkpoint/folder/folder_lease.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/format/checkpoint_name.h"
#include "checkpoint/format/run_identity.h"
#include "checkpoint/format/state_dict.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/save/async_saver.h"
#include "checkpoint/save/saver.h"
#include "storage/object_store.h"
#include "trainer/core/communicator.h"
#include "trainer/core/state.h"
#include "trainer/core/supervision.h"
#include "trainer/options/trainer_options.h"
#include "trainer/resume/first_state.h"
#include "trainer/resume/required_algorithms.h"
#include "trainer/resume/saved_state.h"

namespace composer {

class RunCheckpoints {
 public:
  // References must outlive this object; `store` may be null for one rank. `thread` is shared by the savers of a run,
  // so that they write one after the other; null without save_async.
  RunCheckpoints(const SaveOptions& options, Communicator& communicator, c10::intrusive_ptr<c10d::Store> store,
                 Supervision& supervision, std::shared_ptr<SaveThread> thread);
  ~RunCheckpoints();  // ends as AsyncSaver does, then releases the folder

  // Must be called before Open; otherwise this object is a launch of its own.
  void SetLaunch(LaunchId launch) { launch_ = std::move(launch); }
  // Prepares saving; further calls do nothing. All ranks must call it. Takes the folder's lease (run_lease.h), so that
  // no other run, and no earlier launch of this one, commits or deletes there. Fails if the place cannot be opened or
  // belongs to another run.
  absl::Status Open(const State& state);
  // Lets others have the folder without waiting for this run: nothing is saved from now on.
  void ReleaseFolder();

  // Returns what Newest requires to be loaded, or, when there is none, load_path; empty without both. To be asked after
  // Open and before the model is made.
  absl::StatusOr<CheckpointRequirements> Requirements(const LoadOptions& load);
  // The same of Newest alone.
  absl::StatusOr<CheckpointRequirements> NewestRequirements();

  // With autoresume and a save_folder, returns the newest checkpoint that has not been refused, the same on all ranks;
  // those refused are named in a warning with the reason. Its tensors' bytes are verified when it is loaded. Returns
  // nullopt if there is none.
  absl::StatusOr<std::optional<CheckpointName>> Newest();
  // Loads Newest into state and returns its location; "" when there is none; nullopt when it turned out to be damaged:
  // it is then refused, and Newest is an older one, or none, in which case state is as it was before the first load
  // (first_state.h). `data` is filled in from it. Returns kInvalidArgument when it does not fit the model or optimizer,
  // with the tensors that are missing, unexpected or of another shape. With best_effort damage is an error, too, and an
  // error of one rank is all ranks' (another checkpoint can then be loaded over what this one has left in state).
  absl::StatusOr<std::optional<std::string>> Resume(State& state, SavedDataSettings& data);
  // Keeps the initial state for Resume. Must be called once, before anything else is loaded over it.
  absl::Status KeepFirstState(const State& state);

  // Loads load.load_path into state. Returns the location; "" when there is no load_path. Mismatches are handled as in
  // Resume.
  absl::StatusOr<std::string> LoadFrom(const LoadOptions& load, State& state, SavedDataSettings& data);

  // Checks, before training and after loading, that it can save to its folder (checkpoint/save/save_folder.h). All
  // ranks must call it.
  absl::Status CheckFolder(const State& state);

  void SetDataSettings(const SavedDataSettings& data) { data_ = data; }

  // A function decides for itself, but a batch is saved once. Epoch intervals fire at kEpochCheckpoint, those in
  // iterations at kIterationCheckpoint, all others at kBatchCheckpoint.
  bool IsDue(Event event, const State& state) const;
  // Begins the save of this very batch and epoch, unless it is saved or being saved already; does nothing without a
  // save_folder. All ranks must call it. With save_async it returns once the state is copied, else after the commit,
  // like SaveNow.
  void Save(State& state);
  // Returns on every rank after the commit. Throws StatusError: kResourceExhausted for a full disk; older checkpoints
  // are not affected.
  void SaveNow(State& state);
  // Saves at the end of the run, unless this batch is saved already, even if before the end of its epoch.
  void SaveAtEnd(State& state);

  // Returns whether the save in flight has failed. Finish must then throw its error, on all ranks at the same batch.
  bool HasFailed() const { return async_ != nullptr && async_->has_failed(); }
  // Reports a save that has ended well to the supervision. Costs an atomic load when there is none.
  void Poll();
  // Waits for the save in flight. Throws as SaveNow does.
  void Finish();
  // For a run that fails anyway: waits at most `limit` for the save in flight, and throws nothing.
  void FinishQuietly(absl::Duration limit);

  // Returns the last checkpoint that this run saved; "" if there is none.
  const std::string& last_location() const { return last_location_; }
  // Returns the checkpoints that this object has committed and that retention has left, the oldest first.
  std::vector<std::string> saved_locations() const;

 private:
  absl::Status OpenFolder();
  SaverOptions OptionsOfSaver(const State& state) const;
  // Sets *damaged, on all ranks alike, when the tensors are not what was saved and first_state_ is there.
  absl::Status Load(const std::string& checkpoint, State& state, SavedDataSettings& data, bool* damaged);
  absl::StatusOr<std::string> AgreeOnDamage(const absl::Status& own);
  absl::StatusOr<CheckpointChoice> Choose(std::optional<CheckpointName> before);
  // Skips the newest checkpoint, in which `damage` was found.
  absl::Status Refuse(const absl::Status& damage, State& state);
  StateDict Collect(const State& state) const;
  // Called before a save while another may be in flight. Returns false when the new one is to be skipped; equal on all
  // ranks.
  bool MakeRoom(CheckpointName name);
  bool saves() const { return folder_ != nullptr && !given_up_; }
  void Report(const SaveOutcome& outcome);
  void ReportBestEffort(const SaveOutcome& outcome);

  SaveOptions options_;
  Communicator& communicator_;
  Supervision& supervision_;
  std::shared_ptr<ObjectStore> folder_;  // null: no checkpoints. The savers below refer to it
  LaunchId launch_{RandomHex(8)};
  std::unique_ptr<FolderLease> lease_;  // of the folder; null: held by another rank, or best_effort
  RankExchange exchange_;               // the training thread's
  RankExchange save_exchange_;          // the saver's
  std::shared_ptr<SaveThread> thread_;
  std::unique_ptr<Saver> saver_;       // without save_async
  std::unique_ptr<AsyncSaver> async_;  // with it
  bool given_up_ = false;              // best_effort, and a save has failed
  bool overlap_told_ = false;
  SavedDataSettings data_;
  std::optional<CheckpointName> last_saved_;  // or being saved
  std::string last_location_;
  struct SavedCheckpoint {
    ScoredCheckpoint scored;
    std::string location;
  };
  std::vector<SavedCheckpoint> saved_;                            // all that are committed
  double last_score_ = std::numeric_limits<double>::quiet_NaN();  // of last_saved_, with save_top_k
  std::optional<CheckpointChoice> choice_;                        // the result of Newest
  std::optional<FirstState> first_state_;                         // kept while a checkpoint may turn out to be damaged
  bool verifies_first_ = false;  // there is no memory for first_state_, so checkpoints are read twice
};

}  // namespace composer
