// What a Trainer is made of. Names and defaults are Composer's Trainer arguments (mosaicml composer/trainer/trainer.py)
// unless said.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "base/clock.h"
#include "storage/file_system.h"
#include "trainer/core/callback.h"
#include "trainer/core/state.h"
#include "trainer/core/supervision.h"
#include "trainer/core/time.h"
#include "trainer/data/dataset.h"
#include "trainer/loggers/logger.h"
#include "trainer/parallel/communicator.h"

namespace composer {

struct TrainDataOptions {
  std::shared_ptr<const Dataset> dataset;
  std::string label = "train";
  // Samples of one optimizer step over all ranks. 0: device_train_batch_size x the ranks of the first launch (then
  // frozen in the checkpoint).
  int64_t global_train_batch_size = 0;
  int64_t device_train_batch_size = 0;
  bool shuffle = true;
  bool drop_last = false;
  int64_t train_subset_num_batches = -1;  // batches of an epoch; -1: all
};

// One evaluation: data, metrics (the model's evaluation metrics) and when.
struct EvaluatorOptions {
  std::string label = "eval";
  std::shared_ptr<const Dataset> dataset;
  int64_t batch_size = 256;  // a rank's
  int64_t subset_num_batches = -1;
  Time eval_interval = Time::Epochs(1);  // count 0: only when asked for
};

struct SaveOptions {
  std::string save_folder;  // "": no checkpoints
  Time save_interval = Time::Epochs(1);
  int save_num_checkpoints_to_keep = -1;  // -1: all
  bool autoresume = true;                 // start from the newest valid checkpoint of save_folder, if there is one
  FileSystem* files = nullptr;            // null: the machine's; must outlive the trainer
};

struct TrainerOptions {
  std::string run_name = "run";
  std::string run_folder;
  std::shared_ptr<Model> model;
  TrainDataOptions train;
  std::vector<EvaluatorOptions> evaluators;
  // Called with the model's final parameters; required.
  std::function<std::unique_ptr<Optimizer>(Model&)> make_optimizer;
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  double scale_schedule_ratio = 1;  // of max_duration and of the schedules
  Time max_duration;                // required, > 0; not dur, not iter
  std::vector<std::unique_ptr<Algorithm>> algorithms;
  std::vector<std::unique_ptr<Callback>> callbacks;
  std::vector<std::unique_ptr<LoggerDestination>> loggers;
  SaveOptions save;
  Precision precision = Precision::kFp32;
  int64_t device_train_microbatch_size = 0;  // 0: the whole rank batch
  int64_t train_metrics_interval = 1;        // batches between computations of the train metrics; 0: never
  uint64_t seed = 0;

  // Coordinates saves and loads; needed when there are several ranks. Its keys must be this trainer's own.
  c10::intrusive_ptr<c10d::Store> store;

  // Not owned; must outlive the trainer. Null: one rank, nobody watching, the real clock.
  Communicator* communicator = nullptr;
  Supervision* supervision = nullptr;
  Clock* clock = nullptr;
};

// max_duration x scale_schedule_ratio, in whole counts.
Time ScaledMaxDuration(const TrainerOptions& options);

// kInvalidArgument naming the field, its value and what is allowed.
absl::Status Validate(const TrainerOptions& options, int world_size);

}  // namespace composer
