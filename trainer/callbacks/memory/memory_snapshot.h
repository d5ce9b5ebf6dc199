// Records every allocation of tensors for a few batches, once per run, to show what a step's memory consists of. It
// starts after `skip_batches` batches of this process and records for `interval`. It writes
//
//   {run_folder}/traces/rank{rank}.{batch}.memory_snapshot.pickle
//       for https://pytorch.org/memory_viz, see memory_pickle.h
//
// On a CPU and on a GPU it records address, size, time and operations of every allocation and free of the training
// thread (including a GPU's backward passes). Composer's, which asks the CUDA allocator itself, can do what this
// cannot: Python or C++ stack traces, segments and fragmentation, and blocks that existed before. Only recorded blocks
// appear: parameters made at the start are not among them.
// It cannot record the same batches as torch's profiler: whichever starts second fails, this one with a warning.
// Source: mosaicml composer/callbacks/memory_snapshot.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/time.h"
#include "trainer/core/callback.h"
#include "trainer/memory/allocation_recorder.h"

namespace composer {

// Every rank writes its own file. A failure causes a warning and never stops the run.
class MemorySnapshot final : public Callback {
 public:
  struct Options {
    int64_t skip_batches = 1;
    Time interval = Time::Batches(3);  // kBatch or kEpoch, at least 1
    int64_t max_entries = 100000;      // the newest are kept
    std::string folder;                // "" means {run_folder}/traces
    std::string filename = "rank{rank}.{batch}.memory_snapshot";
  };
  explicit MemorySnapshot(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "MemorySnapshot"; }
  EventSet events() const override;
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  enum class Phase { kWaiting, kRecording, kDone };
  void Begin(const State& state);
  absl::Status Write(const State& state, Logger& logger);

  Options options_;
  Phase phase_ = Phase::kWaiting;
  int64_t batches_ = 0;  // of this process, so far
  int64_t started_ = 0;  // in the interval's unit
  std::unique_ptr<AllocationRecorder> recorder_;
};

// Returns what happens between this event and the next, for AllocationRecorder::SetPhase. Null is for events that
// change nothing.
const char* PhaseAfter(Event event);

}  // namespace composer
