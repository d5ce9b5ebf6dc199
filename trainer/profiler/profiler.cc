// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/profiler.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/state.h"
#include "trainer/profiler/layer_costs.h"
#include "trainer/profiler/memory_timeline.h"
#include "trainer/profiler/roofline.h"
#include "trainer/profiler/trace_merge.h"
#include "trainer/profiler/verdict.h"
#include "trainer/profiler/window_trace.h"

namespace composer {
namespace {

void WarnIfError(const absl::Status& status, absl::string_view what) {
  if (!status.ok()) LOG(WARNING) << "profiler: " << what << ": " << status;
}

absl::Status CheckFileName(absl::string_view key, const std::string& name, absl::string_view ending) {
  RETURN_IF_ERROR(Annotate(CheckName(name), key));
  if (!absl::StrContains(name, "{rank}"))
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": ", name, " must contain {rank}, else ranks overwrite each other"));
  if (!absl::EndsWith(name, ending))
    return absl::InvalidArgumentError(absl::StrCat(key, ": ", name, " must end in ", ending));
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const ProfilerOptions& options) {
  if (const auto* cyclic = options.schedule.target<CyclicSchedule>()) RETURN_IF_ERROR(cyclic->Validate());
  RETURN_IF_ERROR(Annotate(CheckName(options.folder), "profiler.json_trace_handler.folder"));
  RETURN_IF_ERROR(CheckFileName("profiler.json_trace_handler.filename", options.filename, ".json"));
  if (!options.memory_filename.empty())
    RETURN_IF_ERROR(CheckFileName("profiler.torch_prof_memory_filename", options.memory_filename, ".html"));
  if (absl::StrContains(options.merged_trace_filename, '{')) {
    return absl::InvalidArgumentError(absl::StrCat("profiler.json_trace_handler.merged_trace_filename: ",
                                                   options.merged_trace_filename, " takes no placeholders"));
  }
  if (options.num_traces_to_keep < -1 || options.num_traces_to_keep == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("profiler.json_trace_handler.num_traces_to_keep: ", options.num_traces_to_keep,
                     ", must be at least 1, or -1 to keep all"));
  }
  if (options.system.interval < absl::Milliseconds(1))
    return absl::InvalidArgumentError("profiler.sys_prof_stats_thread_interval_seconds: must be at least 0.001");
  return absl::OkStatus();
}

Profiler::Profiler(const ProfilerOptions& options, Clock& clock)
    : options_(options), clock_(clock), base_ns_(TraceBase(UnixNanos())), ops_(options.ops) {}

Profiler::~Profiler() = default;

absl::Status Profiler::Run(Event event, State& state, Logger& logger) {
  switch (event) {
    case Event::kAfterLoad:
      resumed_epoch_ = state.timestamp.epoch;
      resumed_at_ = state.timestamp.batch_in_epoch;
      if (!options_.roofline) break;
      if (!state.identity.device.is_cpu()) {
        return absl::InvalidArgumentError(
            "profiler.roofline: true needs device: cpu; the operators of a GPU run after the host has called them");
      }
      peaks_ = MeasureMachinePeaks();
      break;
    case Event::kBeforeDataloader:
      BeginBatch(state);
      break;
    case Event::kBatchEnd:
      if (mode_ == Mode::kRecording) EndBatch(state);
      break;
    case Event::kFitEnd:
      Stop(state);
      Merge(options_.merge_timeout);
      CloseHandlers();
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

absl::Status Profiler::Close(State& state, Logger& logger) {
  Stop(state);
  Merge(absl::ZeroDuration());
  CloseHandlers();
  return absl::OkStatus();
}

void Profiler::CloseHandlers() {
  for (const auto& handler : std::exchange(options_.trace_handlers, {})) WarnIfError(handler->Close(), handler->name());
}

ProfilerAction Profiler::Action(State& state) {
  const Timestamp& now = state.timestamp;
  // BEFORE_DATALOADER occurs once more at the end of an epoch.
  if (state.clock.batches_per_epoch > 0 && now.batch_in_epoch >= state.clock.batches_per_epoch)
    return ProfilerAction::kSkip;
  const SchedulePosition position = {now.batch_in_epoch, state.clock.batches_per_epoch,
                                     now.epoch == resumed_epoch_ ? resumed_at_ : 0};
  if (std::exchange(state.requests.profile, false)) asked_.Ask();
  const std::optional<ProfilerAction> asked = asked_.Next(position);
  return asked.has_value() ? *asked : options_.schedule(position);
}

void Profiler::BeginBatch(State& state) {
  const ProfilerAction action = Action(state);
  save_at_batch_end_ = action == ProfilerAction::kActiveAndSave;
  if (action == ProfilerAction::kSkip) {
    if (mode_ != Mode::kIdle) Stop(state);
  } else if (action == ProfilerAction::kWarmup) {
    if (mode_ == Mode::kRecording) Stop(state);
    if (mode_ == Mode::kIdle) WarmUp(state);
  } else {
    if (mode_ != Mode::kRecording) Record(state);
    window_.batches.push_back({state.timestamp.epoch, state.timestamp.batch, UnixNanos(), 0});
  }
}

// Runs everything as in a recorded batch, and discards the result.
void Profiler::WarmUp(State& state) {
  mode_ = Mode::kWarmingUp;
  if (options_.ops.any()) WarnIfError(ops_.Prepare(), "operators are not recorded");
  recorder_.Reset();
  state.tracer = &recorder_;
}

void Profiler::Record(State& state) {
  mode_ = Mode::kRecording;
  window_ = Window();
  if (options_.ops.any()) WarnIfError(ops_.Start(), "operators are not recorded");
  if (options_.system.any()) sampler_ = std::make_unique<SystemSampler>(options_.system);
  if (!options_.memory_filename.empty()) window_.counters.push_back(SampleResident());
  recorder_.Reset();
  state.tracer = &recorder_;
  if (options_.roofline) costs_ = std::make_unique<LayerCosts>(*state.model);
  window_.begin_ns = UnixNanos();
}

void Profiler::EndBatch(State& state) {
  window_.batches.back().end_ns = UnixNanos();
  if (!options_.memory_filename.empty()) window_.counters.push_back(SampleResident());
  if (save_at_batch_end_) Stop(state);
}

// Ends the recording, if any, and writes it.
void Profiler::Stop(State& state) {
  const Mode mode = std::exchange(mode_, Mode::kIdle);
  if (mode == Mode::kIdle) return;
  if (mode == Mode::kRecording) {
    window_.end_ns = UnixNanos();
    if (!window_.batches.empty() && window_.batches.back().end_ns == 0) window_.batches.back().end_ns = window_.end_ns;
    SpanRecorder::Taken taken = recorder_.Take(window_.end_ns);
    window_.spans = std::move(taken.records);
    window_.dropped_spans = taken.dropped;
    window_.training_thread = static_cast<uint32_t>(at::RecordFunction::currentThreadId());
    WarnIfError(ops_.StopInto(window_), "operators are not recorded");
    if (sampler_ != nullptr) {
      for (CounterSample& sample : sampler_->Stop()) window_.counters.push_back(std::move(sample));
      sampler_.reset();
    }
    Save(state);
    costs_.reset();
  }
  recorder_.Reset();
  if (state.tracer == &recorder_) state.tracer = nullptr;
}

NameValues Profiler::Values(const State& state) const {
  return {state.identity.run_name, state.identity.run_folder, state.identity.rank, state.identity.world_size,
          state.timestamp};
}

void Profiler::Save(State& state) {
  if (window_.batches.empty()) return;
  WarnIfError(Write(state), "this window is not written");
  window_ = Window();
}

absl::Status Profiler::Write(const State& state) {
  if (state.identity.run_folder.empty() && absl::StrContains(options_.folder, "{run_folder}"))
    return absl::FailedPreconditionError("no run_folder to write to; set one, or a folder without {run_folder}");
  NameValues values = Values(state);
  const std::string folder = FillName(options_.folder, values);
  const std::string trace = JoinPath(folder, FillName(options_.filename, values));
  RETURN_IF_ERROR(MakeDirs(DirName(trace)));
  const TraceFileHeader header = {base_ns_, state.identity.rank, state.identity.world_size, state.identity.run_name};
  RETURN_IF_ERROR(WriteTrace(window_, header, trace));
  for (const auto& handler : options_.trace_handlers)
    WarnIfError(handler->Take({window_, header, values, trace}), handler->name());

  Saved& saved = saved_.emplace_back();
  saved.own_files.push_back(trace);
  for (values.rank = 0; values.rank < state.identity.world_size; ++values.rank)
    saved.traces.push_back(JoinPath(folder, FillName(options_.filename, values)));
  is_merged_ = state.identity.rank != 0 || options_.merged_trace_filename.empty();
  merged_path_ = JoinPath(folder, options_.merged_trace_filename);
  values.rank = state.identity.rank;

  const std::string title = absl::StrCat(absl::StripSuffix(BaseName(trace), ".json"));
  const ProfileVerdict verdict = Judge(window_);
  saved.own_files.push_back(absl::StrCat(absl::StripSuffix(trace, ".json"), ".verdict.txt"));
  RETURN_IF_ERROR(AtomicWriteFile(saved.own_files.back(), VerdictText(verdict, title)));
  if (state.identity.rank == 0) {
    (verdict.advice.empty() ? LOG(INFO) : LOG(WARNING)) << "profiled " << title << ", " << VerdictLine(verdict);
  }
  if (costs_ != nullptr) RETURN_IF_ERROR(WriteRoofline(state, std::string(absl::StripSuffix(trace, ".json")), title));
  if (!options_.memory_filename.empty()) {
    if (const std::string page = MemoryPage(window_, title); !page.empty()) {
      saved.own_files.push_back(JoinPath(folder, FillName(options_.memory_filename, values)));
      RETURN_IF_ERROR(MakeDirs(DirName(saved.own_files.back())));
      RETURN_IF_ERROR(AtomicWriteFile(saved.own_files.back(), page));
    }
  }
  RemoveOldest();
  return absl::OkStatus();
}

absl::Status Profiler::WriteRoofline(const State& state, const std::string& stem, const std::string& title) {
  double seconds = 0;
  for (const BatchEvent& batch : window_.batches) seconds += 1e-9 * static_cast<double>(batch.end_ns - batch.begin_ns);
  const Roofline roofline = MakeRoofline(peaks_, costs_->Take(), static_cast<int64_t>(window_.batches.size()), seconds);
  if (state.identity.rank == 0) LOG(INFO) << "profiled " << title << ", " << RooflineLine(roofline);
  for (const auto& [ending, text] : {std::pair(".roofline.txt", RooflineText(roofline, title)),
                                     std::pair(".roofline.json", RooflineJson(roofline))}) {
    saved_.back().own_files.push_back(absl::StrCat(stem, ending));
    RETURN_IF_ERROR(AtomicWriteFile(saved_.back().own_files.back(), text));
  }
  return absl::OkStatus();
}

void Profiler::RemoveOldest() {
  if (options_.num_traces_to_keep < 0) return;
  while (static_cast<int>(saved_.size()) > options_.num_traces_to_keep) {
    for (const std::string& file : saved_.front().own_files) WarnIfError(RemoveFile(file), "an old trace stays");
    saved_.pop_front();
  }
}

void Profiler::Merge(absl::Duration timeout) {
  if (is_merged_) return;
  is_merged_ = true;
  std::vector<std::string> missing;
  for (const Saved& saved : saved_) missing.insert(missing.end(), saved.traces.begin(), saved.traces.end());
  std::vector<std::string> there;
  const absl::Time deadline = clock_.Now() + timeout;
  for (;;) {
    const auto arrived = std::stable_partition(missing.begin(), missing.end(),
                                               [](const std::string& file) { return !PathExists(file); });
    there.insert(there.end(), arrived, missing.end());
    missing.erase(arrived, missing.end());
    if (missing.empty() || clock_.Now() >= deadline) break;
    clock_.SleepFor(absl::Milliseconds(20));
  }
  if (!missing.empty()) {
    LOG(WARNING) << "profiler: " << merged_path_ << " lacks " << absl::StrJoin(missing, ", ")
                 << "; once they are in one folder, `composer_worker trace merge` joins them";
  }
  std::sort(there.begin(), there.end());
  WarnIfError(MergeTraces(there, merged_path_), "traces are not merged");
}

}  // namespace composer
