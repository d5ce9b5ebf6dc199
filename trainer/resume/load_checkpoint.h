// LoadFromPath loads a checkpoint of another run (load_path). The trainer calls it at its start, and the LoadCheckpoint
// callback at an event of the user's choice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "checkpoint/exchange/byte_exchange.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "trainer/core/callback.h"
#include "trainer/options/trainer_options.h"
#include "trainer/resume/required_algorithms.h"
#include "trainer/resume/saved_state.h"

namespace composer {

// Loads load.load_path into the state and returns its location. For a folder it takes the newest valid checkpoint, the
// same on all ranks; refused ones are named in warnings. `data` is filled in unless it is ignored or load_weights_only.
// Returns kNotFound if nothing is there, kInvalidArgument with the tensors that are missing, unexpected or of another
// shape. With `bytes`, ranks pass on what one of them read when that pays (byte_exchange.h); null: each reads for
// itself.
absl::StatusOr<std::string> LoadFromPath(const LoadOptions& load, RankExchange& exchange, State& state,
                                         SavedDataSettings& data, ByteExchange* bytes = nullptr);

// Returns what the checkpoint that LoadFromPath takes requires to be loaded; its errors are the same.
absl::StatusOr<CheckpointRequirements> RequirementsOfPath(const LoadOptions& load, RankExchange& exchange);

// Source: mosaicml composer/callbacks/load_checkpoint.py.
class LoadCheckpointCallback final : public Callback {
 public:
  // load_path must be visible to all ranks.
  LoadCheckpointCallback(LoadOptions load, Event event) : load_(std::move(load)), event_(event) {}
  std::string name() const override { return "LoadCheckpoint"; }
  EventSet events() const override { return EventSet{event_}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  LoadOptions load_;
  Event event_;
};

}  // namespace composer
