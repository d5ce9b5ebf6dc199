// SPDX-License-Identifier: Apache-2.0
#include "trainer/run_checkpoints.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/reader.h"
#include "storage/local_store.h"
#include "trainer/eval_loop.h"
#include "trainer/torch_status.h"

namespace composer {
namespace {

// A name for each part, so that two callbacks of one class do not collide.
template <typename Parts, typename Visit>
void VisitNamed(absl::string_view prefix, const Parts& parts, const Visit& visit) {
  std::map<std::string, int> seen;
  for (const auto& part : parts) {
    const int copy = seen[part->name()]++;
    visit(copy == 0 ? absl::StrCat(prefix, part->name()) : absl::StrCat(prefix, part->name(), "#", copy + 1), *part);
  }
}

template <typename Parts>
absl::Status LoadParts(absl::string_view prefix, const Parts& parts, const StateDict& loaded) {
  absl::Status status;
  VisitNamed(prefix, parts, [&](const std::string& key, auto& part) {
    const auto it = loaded.small.find(key);
    if (it != loaded.small.end() && status.ok()) status = Annotate(part.LoadState(it->second), key);
  });
  return status;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const SaveOptions& options, Communicator& communicator,
                               c10::intrusive_ptr<c10d::Store> store, Supervision& supervision)
    : options_(options), communicator_(communicator), supervision_(supervision) {
  if (options_.save_folder.empty()) return;
  folder_ = options_.files != nullptr ? std::make_unique<LocalStore>(options_.save_folder, *options_.files)
                                      : std::make_unique<LocalStore>(options_.save_folder);
  if (communicator.world_size() > 1)
    exchange_ = RankExchange(std::move(store), communicator.rank(), communicator.world_size());
}

StateDict RunCheckpoints::Collect(State& state) const {
  StateDict dict;
  for (const auto& item : state.model->named_parameters())
    dict.tensors.emplace_back(absl::StrCat("model/", item.key()), item.value().detach());
  for (const auto& item : state.model->named_buffers())
    dict.tensors.emplace_back(absl::StrCat("model/", item.key()), item.value());
  for (auto& [name, tensor] : state.optimizer->state())
    dict.tensors.emplace_back(absl::StrCat("optimizer/", name), tensor);
  return dict;
}

absl::StatusOr<std::string> RunCheckpoints::Resume(State& state, SavedDataSettings& data) {
  if (folder_ == nullptr) return "";
  saver_ = std::make_unique<Saver>(
      *folder_, exchange_, SaverOptions{.run_name = state.run_name, .keep = options_.save_num_checkpoints_to_keep});
  if (!options_.autoresume) return "";
  ASSIGN_OR_RETURN(const CheckpointChoice choice, ChooseCheckpoint(*folder_, exchange_));
  if (state.rank == 0) {
    for (const std::string& reason : choice.refused) LOG(WARNING) << "checkpoint refused: " << reason;
  }
  if (choice.checkpoint.empty()) return "";
  StateDict dict = Collect(state);
  if (absl::Status status = LoadCheckpoint(*folder_, choice.checkpoint, &dict); !status.ok()) {
    const std::string what = absl::StrCat("cannot go on from ", folder_->Location(choice.checkpoint));
    const bool mismatch = status.code() == absl::StatusCode::kFailedPrecondition;
    return Annotate(
        status, mismatch
                    ? absl::StrCat(what, " (another model or optimizer? use another run_name, or autoresume: false)")
                    : what);
  }
  RETURN_IF_ERROR(Restore(dict, state, data));
  last_saved_ = CheckpointName::Parse(choice.checkpoint);
  return folder_->Location(choice.checkpoint);
}

absl::Status RunCheckpoints::Restore(const StateDict& loaded, State& state, SavedDataSettings& data) const {
  const auto timestamp = loaded.small.find("timestamp"), settings = loaded.small.find("data");
  if (timestamp == loaded.small.end() || settings == loaded.small.end())
    return absl::DataLossError("the checkpoint has no timestamp or data settings");
  ASSIGN_OR_RETURN(state.timestamp, Timestamp::FromJson(timestamp->second));
  state.previous_timestamp = state.timestamp;
  const auto json = nlohmann::json::parse(settings->second, nullptr, /*allow_exceptions=*/false);
  for (const char* field : {"global_train_batch_size", "dataset_size", "seed"}) {
    if (!json.is_object() || !json.contains(field) || !json[field].is_number_integer())
      return absl::DataLossError(absl::StrCat("the checkpoint's data settings have no ", field));
  }
  data.global_train_batch_size = json["global_train_batch_size"].get<int64_t>();
  data.dataset_size = json["dataset_size"].get<int64_t>();
  const uint64_t seed = json["seed"].get<uint64_t>();
  if (seed != state.seed)
    return absl::InvalidArgumentError(absl::StrCat("seed: ", state.seed, ", but the checkpoint was trained with ", seed,
                                                   "; the order of samples depends on it"));
  RETURN_IF_ERROR(LoadParts("callbacks/", state.callbacks, loaded));
  return LoadParts("algorithms/", state.algorithms, loaded);
}

bool RunCheckpoints::IsDue(Event event, const State& state) const {
  const bool by_epoch = options_.save_interval.unit() == TimeUnit::kEpoch;
  if (folder_ == nullptr || event != (by_epoch ? Event::kEpochCheckpoint : Event::kBatchCheckpoint)) return false;
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
  StateDict dict = Collect(state);
  dict.small["timestamp"] = state.timestamp.ToJson();
  dict.small["data"] = nlohmann::json{
      {"global_train_batch_size", data_.global_train_batch_size},
      {"dataset_size", data_.dataset_size},
      {"seed", state.seed}}.dump();
  const auto keep = [&](const std::string& key, const auto& part) {
    if (std::string json = part.SaveState(); !json.empty()) dict.small[key] = std::move(json);
  };
  VisitNamed("callbacks/", state.callbacks, keep);
  VisitNamed("algorithms/", state.algorithms, keep);
  absl::StatusOr<std::string> path = saver_->Save(dict, name, state.timestamp.sample);
  ThrowIfError(Annotate(path.status(), "saving a checkpoint"));
  last_saved_ = name;
  supervision_.OnCheckpointSaved(*path, state.timestamp.batch);
  supervision_.OnPhase(RunPhase::kTraining);
}

}  // namespace composer
