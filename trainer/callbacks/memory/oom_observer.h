// Records how the memory was used when a run ran out of it:
//
//   {run_folder}/traces/rank{rank}_oom.json
//     message, advice (core/out_of_memory.h), where (rank, device, epoch, batch, microbatch size), memory (the device's
//     and the allocator's numbers, other processes), totals of the parameters, gradients, buffers, optimizer state,
//     batch and outputs, and the largest tensors of these, by name
//   {run_folder}/traces/rank{rank}_oom.pickle
//     with record_history: the latest max_entries allocations, as memory_snapshot writes them
//
// The trainer calls ReportOutOfMemory where it catches the error. By then the exception has unwound the tensors of the
// failed forward itself, but not what the state holds. record_history sees the request that failed and everything
// before; it costs 0.3 us per allocation and cannot be combined with a profiler.
// Source: mosaicml composer/callbacks/oom_observer.py, which asks the CUDA allocator's observer and draws plots; this
// one also works on a CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/core/callback.h"
#include "trainer/core/state.h"
#include "trainer/memory/allocation_recorder.h"

namespace composer {

struct OomReportOptions {
  std::string folder;  // "" means {run_folder}/traces
  std::string filename = "rank{rank}_oom";
  std::string visible_devices;  // CUDA_VISIBLE_DEVICES
  int largest = 20;             // how many tensors to list by name
};

// Writes the JSON file and returns its path. Returns kFailedPrecondition without a folder.
absl::StatusOr<std::string> WriteOomReport(State& state, absl::string_view message,
                                           const OomReportOptions& options = {});

// A tensor that the state holds.
struct HeldTensor {
  std::string kind;  // "parameter", "gradient", "buffer", "optimizer", "batch", "outputs"
  std::string name;
  at::Tensor tensor;
};
std::vector<HeldTensor> HeldTensors(State& state);

class OOMObserver final : public Callback {
 public:
  struct Options {
    OomReportOptions report;
    bool record_history = false;
    int64_t max_entries = 100000;
  };
  explicit OOMObserver(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "OOMObserver"; }
  EventSet events() const override;
  absl::Status Run(Event event, State& state, Logger& logger) override;
  // Writes the files and reports where they are. A failure causes a warning.
  void OnOutOfMemory(State& state, Logger& logger, absl::string_view message);

 private:
  Options options_;
  std::unique_ptr<AllocationRecorder> recorder_;
};

// Calls every OOMObserver among the state's callbacks, if any. Must be called on the training thread, with the error's
// message, for each out-of-memory error that is worth examining.
void ReportOutOfMemory(State& state, Logger& logger, absl::string_view message);

}  // namespace composer
