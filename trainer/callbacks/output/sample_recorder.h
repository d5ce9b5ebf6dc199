// Records which samples each rank trained on, so that a test or a user can prove that a resumed run took every sample
// once. Before each batch is trained, each rank appends a line to {run_folder}/logs/samples-rank<rank>.jsonl:
//
//   {"epoch":0,"batch":1,"sample_ids":[17,4]}        batch: of the run, counting from 1
//
// Only the first rank of a tensor-parallel group writes, since all its ranks see the same samples.
// A batch that is trained again after a restart has a line per attempt, of which the last one counts. A line is one
// write(), so a kill leaves whole lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/callback.h"

namespace composer {

// Returns kFailedPrecondition without a run folder, else the file system's errors. Errors stop the run, since a record
// with holes proves nothing.
class SampleRecorder final : public Callback {
 public:
  SampleRecorder() = default;
  ~SampleRecorder() override;
  SampleRecorder(const SampleRecorder&) = delete;
  SampleRecorder& operator=(const SampleRecorder&) = delete;

  std::string name() const override { return "SampleRecorder"; }
  EventSet events() const override { return {Event::kFitStart, Event::kBatchStart}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  absl::Status Open(const State& state);
  absl::Status Write(const State& state);

  std::string path_;
  std::string line_;  // reused
  int fd_ = -1;
};

}  // namespace composer
