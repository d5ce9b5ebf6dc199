// SPDX-License-Identifier: Apache-2.0
#include "trainer/run_checkpoints.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/reader.h"
#include "storage/local_store.h"
#include "trainer/eval_loop.h"
#include "trainer/load_checkpoint.h"
#include "trainer/torch_status.h"

namespace composer {
namespace {

absl::Status DoesNotFit(const absl::Status& status, const std::string& location, absl::string_view advice) {
  const bool mismatch = status.code() == absl::StatusCode::kFailedPrecondition;
  return Annotate(status, absl::StrCat("cannot go on from ", location, mismatch ? advice : ""));
}

}  // namespace

RunCheckpoints::RunCheckpoints(const SaveOptions& options, Communicator& communicator,
                               c10::intrusive_ptr<c10d::Store> store, Supervision& supervision)
    : options_(options), communicator_(communicator), supervision_(supervision) {
  if (communicator.world_size() > 1 && store != nullptr)
    exchange_ = RankExchange(std::move(store), communicator.rank(), communicator.world_size());
}

absl::Status RunCheckpoints::Open() {
  if (options_.save_folder.empty()) return absl::OkStatus();
  if (options_.files != nullptr && !IsRemotePlace(options_.save_folder)) {
    folder_ = std::make_shared<LocalStore>(options_.save_folder, *options_.files);
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<ObjectStore>> opened = OpenPlace(options_.open_store, options_.save_folder);
  if (!opened.ok()) return Annotate(opened.status(), "save_folder");
  folder_ = *std::move(opened);
  return absl::OkStatus();
}

StateDict RunCheckpoints::Collect(const State& state) const {
  StateDict dict = SavedTensors(state, options_.save_weights_only);
  const std::vector<std::string> ignored = StripStatePrefix(options_.save_ignore_keys);
  std::erase_if(dict.tensors, [&](const auto& item) { return Matches(ignored, item.first); });
  std::erase_if(dict.sharded, [&](const ShardedTensor& tensor) { return Matches(ignored, tensor.name); });
  for (auto& [key, json] : SavedSmallState(state, data_, options_.save_weights_only)) {
    if (!Matches(ignored, key)) dict.small[key] = std::move(json);
  }
  return dict;
}

absl::StatusOr<std::string> RunCheckpoints::Resume(State& state, SavedDataSettings& data) {
  RETURN_IF_ERROR(Open());
  if (folder_ == nullptr) return "";
  saver_ = std::make_unique<Saver>(*folder_, exchange_,
                                   SaverOptions{.run_name = state.run_name,
                                                .keep = options_.save_num_checkpoints_to_keep,
                                                .overwrite = options_.save_overwrite});
  if (!options_.autoresume) return "";
  ASSIGN_OR_RETURN(const CheckpointChoice choice, ChooseCheckpoint(*folder_, exchange_));
  if (state.rank == 0) {
    for (const std::string& reason : choice.refused) LOG(WARNING) << "checkpoint refused: " << reason;
  }
  if (choice.checkpoint.empty()) return "";
  const std::string location = folder_->Location(choice.checkpoint);
  StateDict dict = SavedTensors(state, /*weights_only=*/false);
  RETURN_IF_ERROR(DoesNotFit(LoadCheckpoint(*folder_, choice.checkpoint, &dict), location,
                             " (another model or optimizer? use another run_name, or autoresume: false)"));
  if (dict.small.count("timestamp") == 0 || dict.small.count("data") == 0)
    return absl::DataLossError(absl::StrCat("cannot go on from ", location, ": it has no timestamp or data settings"));
  RETURN_IF_ERROR(Annotate(RestoreSmallState(dict.small, {}, state, data), location));
  if (static_cast<uint64_t>(data.seed) != state.seed) {
    return absl::InvalidArgumentError(absl::StrCat("seed: ", state.seed, ", but the checkpoint was trained with ",
                                                   data.seed, "; the order of samples depends on it"));
  }
  last_saved_ = CheckpointName::Parse(choice.checkpoint);
  return last_location_ = location;
}

absl::StatusOr<std::string> RunCheckpoints::LoadFrom(const LoadOptions& load, State& state, SavedDataSettings& data) {
  if (load.load_path.empty()) return "";
  return LoadFromPath(load, exchange_, state, data);
}

bool RunCheckpoints::IsDue(Event event, const State& state) const {
  if (folder_ == nullptr) return false;
  const TimeUnit unit = options_.save_interval.unit();
  const Event when = unit == TimeUnit::kEpoch       ? Event::kEpochCheckpoint
                     : unit == TimeUnit::kIteration ? Event::kIterationCheckpoint
                                                    : Event::kBatchCheckpoint;
  if (event != when) return false;
  const Time interval = CountedInterval(options_.save_interval, state.max_duration, state.batches_per_epoch);
  return IntervalCrossed(interval, state.previous_timestamp, state.timestamp);
}

void RunCheckpoints::SaveAtEnd(State& state) {
  if (!last_saved_.has_value() || last_saved_->batch != state.timestamp.batch) SaveNow(state);
}

void RunCheckpoints::SaveNow(State& state) {
  const CheckpointName name{state.timestamp.epoch, state.timestamp.batch};
  if (folder_ == nullptr || last_saved_ == name) return;
  supervision_.OnPhase(RunPhase::kSaving);
  BroadcastBuffers(*state.model, communicator_);
  const StateDict dict = Collect(state);
  absl::StatusOr<std::string> path = saver_->Save(dict, name, state.timestamp.sample);
  ThrowIfError(Annotate(path.status(), "saving a checkpoint"));
  last_saved_ = name;
  last_location_ = *path;
  supervision_.OnCheckpointSaved(*path, state.timestamp.batch);
  supervision_.OnPhase(RunPhase::kTraining);
}

}  // namespace composer
