// Records the batches chosen by a schedule, and those that somebody asks for while the run goes on
// (StepRequests::profile), and writes for each recorded window into `folder`
//
//   ep{epoch}-ba{batch}-rank{rank}.json            timeline: events, algorithms, callbacks, parts of the step,
//                                                  LibTorch's operators and kernels, machine figures (trace_file.h)
//   ep{epoch}-ba{batch}-rank{rank}.verdict.txt     where the time went (verdict.h); rank 0's first line is logged, too
//   ep{epoch}-ba{batch}-rank{rank}.memory.html     memory over time (memory_timeline.h)
//   ep{epoch}-ba{batch}-rank{rank}.roofline.txt    each layer's share of the machine's peak (roofline.h), and the same
//                                                  as .roofline.json; with ProfilerOptions::roofline
//
// passes it to the trace handlers of its options (trace_handler.h),
// and at the end of training, on rank 0, merged_trace.json with all of them. Add it as the last callback, so that those
// before it are recorded to their end. It needs no other wiring: it sets State::tracer for the batches it records. When
// it cannot write something, it warns, and training continues.
//
// A skipped batch costs two events with a few comparisons. A recorded one costs about 0.1 us per span and 1 to 2 us per
// operator (docs/profiling.md).
// Source: mosaicml composer/profiler/profiler.py, json_trace_handler.py, torch_profiler.py, whose options have the same
// names. Differences: one file holds spans and operators; there is no barrier in the step; a file of the same name is
// replaced, since a run may be resumed into its folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/time.h"
#include "trainer/core/callback.h"
#include "trainer/profiler/machine_peaks.h"
#include "trainer/profiler/op_trace.h"
#include "trainer/profiler/schedule.h"
#include "trainer/profiler/span_recorder.h"
#include "trainer/profiler/system_sampler.h"
#include "trainer/profiler/timeline.h"
#include "trainer/profiler/trace_file.h"
#include "trainer/profiler/trace_handler.h"
#include "trainer/profiler/trace_name.h"

namespace composer {

class LayerCosts;

// Names take the placeholders of trace_name.h. File names must contain {rank} and are relative to folder.
struct ProfilerOptions {
  ProfilerSchedule schedule = CyclicSchedule{};
  std::string folder = "{run_folder}/traces";
  std::string filename = "ep{epoch}-ba{batch}-rank{rank}.json";
  std::string memory_filename = "ep{epoch}-ba{batch}-rank{rank}.memory.html";  // "" means none
  std::string merged_trace_filename = "merged_trace.json";                     // "" means none; no {rank}, no times
  int num_traces_to_keep = -1;                                                 // windows; -1 means all
  SystemSamplerOptions system;
  OpTrace::Options ops;
  bool roofline = false;  // CPU only; measures the machine once, which takes half a second
  std::vector<std::shared_ptr<TraceHandler>> trace_handlers;  // get each window besides, in this order
  // How long rank 0 waits at the end of training for the files of the other ranks, which do not wait for it.
  absl::Duration merge_timeout = absl::Seconds(10);
};
// Returns kInvalidArgument that names the option as it is called in YAML.
absl::Status Validate(const ProfilerOptions& options);

// Runs on the training thread. clock must outlive it.
class Profiler final : public Callback {
 public:
  explicit Profiler(const ProfilerOptions& options, Clock& clock = RealClock::Get());
  ~Profiler() override;

  std::string name() const override { return "Profiler"; }
  EventSet events() const override {
    return {Event::kAfterLoad, Event::kBeforeDataloader, Event::kBatchEnd, Event::kFitEnd};
  }
  absl::Status Run(Event event, State& state, Logger& logger) override;
  // Writes what was recorded when an error ended the run inside a window.
  absl::Status Close(State& state, Logger& logger) override;

 private:
  enum class Mode { kIdle, kWarmingUp, kRecording };

  ProfilerAction Action(State& state);
  void BeginBatch(State& state);
  void EndBatch(State& state);
  void WarmUp(State& state);
  void Record(State& state);
  void Stop(State& state);
  void Save(State& state);
  absl::Status Write(const State& state);
  absl::Status WriteRoofline(const State& state, const std::string& stem, const std::string& title);
  void RemoveOldest();
  void CloseHandlers();
  void Merge(absl::Duration timeout);
  NameValues Values(const State& state) const;

  ProfilerOptions options_;
  Clock& clock_;
  const int64_t base_ns_;
  SpanRecorder recorder_;
  OpTrace ops_;
  std::unique_ptr<SystemSampler> sampler_;
  MachinePeaks peaks_;  // with roofline
  std::unique_ptr<LayerCosts> costs_;
  Mode mode_ = Mode::kIdle;
  bool save_at_batch_end_ = false;
  AskedWindow asked_;
  Window window_;
  int64_t resumed_epoch_ = -1, resumed_at_ = 0;
  struct Saved {
    std::vector<std::string> traces;  // of all ranks
    std::vector<std::string> own_files;
  };
  std::deque<Saved> saved_;
  std::string merged_path_;
  bool is_merged_ = true;  // nothing was saved since the last merge
};

}  // namespace composer
