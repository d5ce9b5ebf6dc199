// A further place where a run saves, with an interval and a retention of its own, besides TrainerOptions::save: weights
// only every hour into one folder, say. Source: mosaicml composer/callbacks/checkpoint_saver.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/core/callback.h"
#include "trainer/resume/run_checkpoints.h"

namespace composer {

class CheckpointSaver final : public Callback {
 public:
  // As RunCheckpoints. store: with keys of its own. It loads nothing by itself.
  CheckpointSaver(const SaveOptions& options, Communicator& communicator, c10::intrusive_ptr<c10d::Store> store,
                  Supervision& supervision, std::shared_ptr<SaveThread> thread);
  std::string name() const override { return "CheckpointSaver"; }
  EventSet events() const override {
    return {Event::kFitStart, Event::kBatchCheckpoint, Event::kEpochCheckpoint, Event::kIterationCheckpoint,
            Event::kFitEnd};
  }
  absl::Status Run(Event event, State& state, Logger& logger) override;

  // What the checkpoints say of the data; before FIT_START.
  void SetDataSettings(const SavedDataSettings& data) { checkpoints_.SetDataSettings(data); }
  // Whose saves in flight the loop follows.
  RunCheckpoints& checkpoints() { return checkpoints_; }

 private:
  RunCheckpoints checkpoints_;
  bool at_end_;  // saves at FIT_END too
};

}  // namespace composer
