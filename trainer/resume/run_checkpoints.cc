// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/run_checkpoints.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/save/save_folder.h"
#include "storage/local_store.h"
#include "trainer/collectives/broadcast_buffers.h"
#include "trainer/core/torch_status.h"
#include "trainer/resume/run_lease.h"
#include "trainer/resume/saved_metrics.h"
#include "trainer/resume/saved_names.h"

namespace composer {
namespace {

constexpr absl::Duration kWorthTelling = absl::Milliseconds(100);

KeepBest BestOf(const SaveOptions& options) {
  if (!options.save_top_k.has_value()) return {};
  return {options.save_top_k->monitor, options.save_top_k->k, options.save_top_k->less_is_better};
}

}  // namespace

RunCheckpoints::RunCheckpoints(const SaveOptions& options, Communicator& communicator,
                               c10::intrusive_ptr<c10d::Store> store, Supervision& supervision,
                               std::shared_ptr<SaveThread> thread)
    : options_(options), communicator_(communicator), supervision_(supervision), thread_(std::move(thread)) {
  if (communicator.world_size() == 1 || store == nullptr) return;
  const auto exchange = [&](const char* user) {
    return RankExchange(c10::make_intrusive<c10d::PrefixStore>(user, store), communicator.rank(),
                        communicator.world_size());
  };
  exchange_ = exchange("train");
  save_exchange_ = exchange("save");
}

RunCheckpoints::~RunCheckpoints() {
  async_.reset();
  ReleaseFolder();
}

void RunCheckpoints::ReleaseFolder() {
  if (lease_ != nullptr) lease_->Release();
}

absl::Status RunCheckpoints::OpenFolder() {
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
  const IgnoredKeys ignored = options_.save_ignore_keys.WithoutStatePrefix();
  std::erase_if(dict.tensors, [&](const auto& item) { return ignored.Has(item.first); });
  std::erase_if(dict.sharded, [&](const ShardedTensor& tensor) { return ignored.Has(tensor.name); });
  for (auto& [key, json] : SavedSmallState(state, data_, options_.save_weights_only)) {
    if (!ignored.Has(key)) dict.small[key] = std::move(json);
  }
  if (options_.save_metrics && state.identity.rank == 0) dict.small[kMetricsKey] = SavedMetrics(state);
  return dict;
}

absl::Status RunCheckpoints::Open(const State& state) {
  if (folder_ != nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(OpenFolder());
  if (folder_ == nullptr) return absl::OkStatus();
  if (!options_.best_effort) {
    absl::StatusOr<std::unique_ptr<FolderLease>> lease = TakeRunLease(folder_, exchange_, state, launch_);
    if (!lease.ok()) {
      folder_ = nullptr;
      return Annotate(lease.status(), "save_folder");
    }
    lease_ = *std::move(lease);
  }
  const SaverOptions saving = OptionsOfSaver(state);
  if (options_.save_async && thread_ != nullptr) {
    async_ = std::make_unique<AsyncSaver>(*folder_, save_exchange_, saving, thread_, state.identity.device.is_cuda());
  } else {
    saver_ = std::make_unique<Saver>(*folder_, save_exchange_, saving);
  }
  return absl::OkStatus();
}

SaverOptions RunCheckpoints::OptionsOfSaver(const State& state) const {
  SaverOptions saving = {.run_name = state.identity.run_name,
                         .keep = options_.save_num_checkpoints_to_keep,
                         .best = BestOf(options_),
                         .overwrite = options_.save_overwrite,
                         .latest = options_.save_latest};
  if (lease_ != nullptr) saving.may_write = [lease = lease_.get()] { return lease->Check(); };
  return saving;
}

absl::Status RunCheckpoints::CheckFolder(const State& state) {
  first_state_.reset();  // nothing more is loaded
  if (folder_ == nullptr || options_.best_effort) return absl::OkStatus();
  if (options_.save_top_k.has_value()) RETURN_IF_ERROR(CheckMonitor(state, options_.save_top_k->monitor));
  const CheckpointName now{state.timestamp.epoch, state.timestamp.batch};
  return Annotate(CheckSaveFolder(*folder_, exchange_, OptionsOfSaver(state), now, IsRemotePlace(options_.save_folder)),
                  "save_folder");
}

bool RunCheckpoints::IsDue(Event event, const State& state) const {
  if (!saves()) return false;
  if (const Interval::Function& is_due = options_.save_interval.is_due(); is_due != nullptr) {
    const bool is_saved = last_saved_.has_value() && last_saved_->batch == state.timestamp.batch;
    return is_due(state, event) && !is_saved;
  }
  const TimeUnit unit = options_.save_interval.every().unit();
  const Event when = unit == TimeUnit::kEpoch       ? Event::kEpochCheckpoint
                     : unit == TimeUnit::kIteration ? Event::kIterationCheckpoint
                                                    : Event::kBatchCheckpoint;
  const Time interval =
      CountedInterval(options_.save_interval.every(), state.max_duration, state.clock.batches_per_epoch);
  // An interval that is a fraction of a run in epochs may fall on the end of one. The save then waits for EPOCH_END,
  // where algorithms have their last word (EMA in epochs).
  const bool waits = unit == TimeUnit::kDuration && state.max_duration.unit() == TimeUnit::kEpoch;
  if (waits && event == Event::kEpochCheckpoint) {
    Timestamp before = state.timestamp;
    before.batch -= 1;
    return IntervalCrossed(interval, before, state.timestamp);
  }
  if (event != when || (waits && state.timestamp.batch_in_epoch == state.clock.batches_per_epoch)) return false;
  return IntervalCrossed(interval, state.clock.previous_timestamp, state.timestamp);
}

void RunCheckpoints::Save(State& state) {
  const CheckpointName name{state.timestamp.epoch, state.timestamp.batch};
  if (!saves() || last_saved_ == name || !MakeRoom(name)) return;
  supervision_.OnPhase(RunPhase::kSaving);
  BroadcastBuffers(state, communicator_);
  StateDict dict = Collect(state);
  last_saved_ = name;
  if (options_.save_top_k.has_value()) last_score_ = ScoreNow(state, options_.save_top_k->monitor);
  AddNames(options_, state, last_score_, dict.small);
  if (async_ != nullptr) {
    async_->Start(dict, name, state.timestamp.sample);
  } else {
    Report({name, saver_->Save(dict, name, state.timestamp.sample)});
  }
  supervision_.OnPhase(RunPhase::kTraining);
}

void RunCheckpoints::SaveNow(State& state) {
  Finish();
  Save(state);
  Finish();
}

void RunCheckpoints::SaveAtEnd(State& state) {
  Finish();
  if (!last_saved_.has_value() || last_saved_->batch != state.timestamp.batch) SaveNow(state);
}

bool RunCheckpoints::MakeRoom(CheckpointName name) {
  if (async_ == nullptr) return true;
  bool skip = false;
  if (options_.save_overlap == SaveOverlap::kSkip) {
    // Rank 0 decides, since the others may be slightly behind or ahead of it.
    const auto decision = exchange_.Broadcast(async_->in_flight() && !async_->has_ended() ? "skip" : "save");
    ThrowIfError(Annotate(decision.status(), "saving a checkpoint"));
    skip = *decision == "skip";
  }
  const absl::Time began = absl::Now();
  if (!skip) Finish();
  const absl::Duration waited = absl::Now() - began;
  if ((skip || waited > kWorthTelling) && !overlap_told_ && communicator_.rank() == 0) {
    overlap_told_ = true;
    LOG(WARNING) << "a checkpoint was due at batch " << name.batch << " while the one before it was being written: "
                 << (skip ? "skipped (save_overlap: skip)"
                          : absl::StrCat("training waited ", absl::FormatDuration(waited),
                                         " for it (save_overlap: skip passes it over)"))
                 << "; a longer save_interval avoids both. This is reported once.";
  }
  return !skip && saves();
}

void RunCheckpoints::Report(const SaveOutcome& outcome) {
  if (!outcome.location.ok()) last_saved_.reset();
  if (options_.best_effort) return ReportBestEffort(outcome);
  ThrowIfError(Annotate(outcome.location.status(), "saving a checkpoint"));
  last_location_ = *outcome.location;
  saved_.push_back({{outcome.step, last_score_}, last_location_});
  supervision_.OnCheckpointSaved(last_location_, outcome.step.batch);
}

std::vector<std::string> RunCheckpoints::saved_locations() const {
  std::vector<ScoredCheckpoint> scored;
  std::vector<CheckpointName> names, gone;
  for (const SavedCheckpoint& saved : saved_) {
    scored.push_back(saved.scored);
    names.push_back(saved.scored.name);
  }
  const int keep = options_.save_num_checkpoints_to_keep;
  const KeepBest best = BestOf(options_);
  if (!names.empty())
    gone = best.count > 0 ? CheckpointsWorseThanBest(scored, names.back(), keep, best)
                          : CheckpointsToDelete(names, names.back(), keep);
  std::vector<std::string> kept;
  for (const SavedCheckpoint& saved : saved_) {
    if (std::find(gone.begin(), gone.end(), saved.scored.name) == gone.end()) kept.push_back(saved.location);
  }
  return kept;
}

void RunCheckpoints::ReportBestEffort(const SaveOutcome& outcome) {
  if (outcome.location.ok()) {
    last_location_ = *outcome.location;
    return;
  }
  given_up_ = true;  // equal on all ranks, as the outcome is
  if (communicator_.rank() == 0)
    LOG(WARNING) << "no more snapshots in " << options_.save_folder << ": " << outcome.location.status().message();
}

void RunCheckpoints::Poll() {
  if (async_ != nullptr && async_->has_ended() && !async_->has_failed()) Report(async_->Take());
}

void RunCheckpoints::Finish() {
  if (async_ == nullptr || !async_->in_flight()) return;
  supervision_.OnPhase(RunPhase::kSaving);
  const SaveOutcome outcome = async_->Take();
  supervision_.OnPhase(RunPhase::kTraining);
  Report(outcome);
}

void RunCheckpoints::FinishQuietly(absl::Duration limit) {
  if (async_ == nullptr || !async_->in_flight() || !async_->WaitFor(limit) || async_->has_failed()) return;
  Report(async_->Take());
}

}  // namespace composer
