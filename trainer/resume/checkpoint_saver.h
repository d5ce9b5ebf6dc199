// CheckpointSaver is a further place where a run saves, with its own interval and retention, besides
// TrainerOptions::save: only the weights every hour into one folder, say. Source: mosaicml
// composer/callbacks/checkpoint_saver.py.
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
  // The arguments are those of RunCheckpoints; the keys of `store` must be its own. It loads nothing by itself.
  CheckpointSaver(const SaveOptions& options, Communicator& communicator, c10::intrusive_ptr<c10d::Store> store,
                  Supervision& supervision, std::shared_ptr<SaveThread> thread);
  std::string name() const override { return "CheckpointSaver"; }
  EventSet events() const override {
    return {Event::kFitStart, Event::kBatchCheckpoint, Event::kEpochCheckpoint, Event::kIterationCheckpoint,
            Event::kFitEnd};
  }
  absl::Status Run(Event event, State& state, Logger& logger) override;

  // Sets what the checkpoints say of the data; must be called before FIT_START.
  // The loop follows the saves in flight of these checkpoints.
  RunCheckpoints& checkpoints() { return checkpoints_; }

 private:
  RunCheckpoints checkpoints_;
  bool at_end_;  // saves at FIT_END, too
};

}  // namespace composer
