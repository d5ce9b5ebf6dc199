// What becomes of a recorded window besides the files that the profiler writes itself. Source: mosaicml
// composer/profiler/trace_handler.py, whose handlers get one event at a time, and the file of torch's profiler.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/profiler/timeline.h"
#include "trainer/profiler/trace_file.h"
#include "trainer/profiler/trace_name.h"

namespace composer {

struct RecordedWindow {
  const Window& window;
  const TraceFileHeader& header;
  const NameValues& names;        // to fill in names of files
  const std::string& trace_path;  // the file that json_trace_handler has written of it
};

// Called on the training thread of every rank. An error is a warning; training goes on.
class TraceHandler {
 public:
  virtual ~TraceHandler() = default;
  virtual std::string name() const = 0;
  virtual absl::Status Take(const RecordedWindow& recorded) = 0;
  // Called once, at the end of training or of the trainer.
  virtual absl::Status Close() { return absl::OkStatus(); }
};

// Writes each window as `<folder>/rank<r>.<ns>.pt.trace.json`, which TensorBoard's profiler plugin (torch-tb-profiler
// 0.4.3) shows: steps, operators, kernels. `folder` takes the placeholders of trace_name.h; a folder is a run there.
class TensorBoardTraceHandler final : public TraceHandler {
 public:
  explicit TensorBoardTraceHandler(std::string folder) : folder_(std::move(folder)) {}
  std::string name() const override { return "TensorBoardTraceHandler"; }
  absl::Status Take(const RecordedWindow& recorded) override;

 private:
  std::string folder_;
};

}  // namespace composer
