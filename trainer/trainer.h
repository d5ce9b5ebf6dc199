// The trainer: builds a run from its options in Composer's order and drives it. Composition only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/train_loop.h"
#include "trainer/trainer_options.h"

namespace composer {

// Threads: one. Everything in options that is not owned must outlive the trainer.
class Trainer {
 public:
  // Validates, builds (INIT), loads the newest checkpoint (BEFORE_LOAD, AFTER_LOAD). Rank 0's parameters go to all
  // ranks on a fresh start. kInvalidArgument: an option, by name. kInvalidArgument or kDataLoss from loading.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(TrainerOptions options);
  ~Trainer();

  // Trains to max_duration. OK when the run is complete; kCancelled after a drain (a checkpoint is committed);
  // otherwise the error, by torch_status.h.
  absl::Status Fit();
  // Runs every evaluator once (EVAL_STANDALONE_START/END).
  absl::Status Eval();

  State& state() { return state_; }
  Logger& logger() { return logger_; }
  // The checkpoint this run started from; "" from scratch.
  const std::string& resumed_from() const { return resumed_from_; }
  int64_t collectives_per_step() const { return loop_->collectives_per_step(); }
  // Values of the last evaluations: ("metrics/<label>/<metric>", value); empty before the first.
  std::vector<std::pair<std::string, double>> eval_results() const;
  const Engine& engine() const { return *engine_; }

 private:
  explicit Trainer(TrainerOptions options);
  absl::Status Build();
  absl::Status BuildData();
  void ShareInitialWeights();

  TrainerOptions options_;
  std::unique_ptr<Communicator> own_communicator_;
  std::unique_ptr<Supervision> own_supervision_;
  Communicator* communicator_;
  Supervision* supervision_;
  State state_;
  Logger logger_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<DataLoader> train_loader_;
  std::vector<Evaluator> evaluators_;
  std::unique_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<TrainLoop> loop_;
  std::string resumed_from_;
};

}  // namespace composer
