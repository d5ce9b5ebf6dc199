// Writes down which samples each rank trained on, so that a test or a user can prove that a resumed run took every
// sample once. Each rank appends to {run_folder}/logs/samples-rank<rank>.jsonl one line a batch, before it is trained
// on:
//
//   {"epoch":0,"batch":1,"sample_ids":[17,4]}        batch: of the run, counting from 1
//
// Of a tensor-parallel group, whose ranks see the same samples, the first rank alone writes.
// A batch that is trained again after a restart has a line per attempt: the last one counts. A line is one write(), so
// a kill leaves whole lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/callback.h"

namespace composer {

// Errors: kFailedPrecondition without a run folder, else those of the file system; they stop the run, since a record
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
