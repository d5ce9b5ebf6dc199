// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/memory/memory_snapshot.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/log.h"
#include "base/name_template.h"
#include "base/status_macros.h"
#include "trainer/callbacks/memory/memory_pickle.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {

const char* PhaseAfter(Event event) {
  switch (event) {
    case Event::kBatchStart:
    case Event::kAfterBackward:
      return "step";
    case Event::kBeforeForward:
      return "forward";
    case Event::kBeforeLoss:
      return "loss";
    case Event::kBeforeBackward:
      return "backward";
    case Event::kAfterTrainBatch:
      return "optimizer";
    case Event::kBatchEnd:
      return "between steps";
    case Event::kEvalStart:
      return "evaluation";
    default:
      return nullptr;
  }
}

EventSet MemorySnapshot::events() const {
  return {Event::kBatchStart,     Event::kBeforeForward, Event::kBeforeLoss,
          Event::kBeforeBackward, Event::kAfterBackward, Event::kAfterTrainBatch,
          Event::kBatchEnd,       Event::kEvalStart,     Event::kFitEnd};
}

absl::Status MemorySnapshot::Run(Event event, State& state, Logger& logger) {
  if (phase_ == Phase::kDone) return absl::OkStatus();
  if (phase_ == Phase::kRecording) {
    if (const char* phase = PhaseAfter(event)) recorder_->SetPhase(phase);
    const TimeUnit unit = options_.interval.unit();
    const bool over = event == Event::kBatchEnd && state.timestamp.Get(unit) - started_ >= options_.interval.count();
    if (!over && event != Event::kFitEnd) return absl::OkStatus();
    recorder_->Stop();
    phase_ = Phase::kDone;
    if (const absl::Status status = Write(state, logger); !status.ok()) LOG(WARNING) << "memory_snapshot: " << status;
    recorder_.reset();
    return absl::OkStatus();
  }
  if (event == Event::kBatchStart && batches_ >= options_.skip_batches) Begin(state);
  if (event == Event::kBatchEnd) ++batches_;
  return absl::OkStatus();
}

void MemorySnapshot::Begin(const State& state) {
  recorder_ = std::make_unique<AllocationRecorder>(options_.max_entries);
  const absl::Status started = recorder_->Start();
  phase_ = started.ok() ? Phase::kRecording : Phase::kDone;
  started_ = state.timestamp.Get(options_.interval.unit());
  if (!started.ok()) LOG(WARNING) << "memory_snapshot: " << started;
}

absl::Status MemorySnapshot::Write(const State& state, Logger& logger) {
  if (options_.folder.empty() && state.identity.run_folder.empty())
    return absl::FailedPreconditionError("it needs a folder or a run_folder to write to");
  PlaceholderValues values = PlaceholdersOf(
      {.run_name = state.identity.run_name, .rank = state.identity.rank, .world_size = state.identity.world_size});
  values.emplace_back("batch", absl::StrCat(state.timestamp.batch));
  values.emplace_back("epoch", absl::StrCat(state.timestamp.epoch));
  const std::string folder =
      options_.folder.empty() ? JoinPath(state.identity.run_folder, "traces") : FillTemplate(options_.folder, values);
  RETURN_IF_ERROR(MakeDirs(folder));
  const std::string name = absl::StrCat(FillTemplate(options_.filename, values), ".pickle");
  const AllocationHistory history = recorder_->History();
  RETURN_IF_ERROR(AtomicWriteFile(JoinPath(folder, name), MemorySnapshotPickle(history)));
  if (state.identity.rank == 0) {
    LOG(INFO) << "memory_snapshot: " << history.events.size() << " allocations and frees are in "
              << JoinPath(folder, name) << (history.dropped > 0 ? "; older ones were dropped (max_entries)" : "");
  }
  logger.LogFile(absl::StrCat("traces/", name), JoinPath(folder, name));
  return absl::OkStatus();
}

}  // namespace composer
