// State is everything that a run is, as data. The trainer owns it; algorithms and callbacks read and change it at
// events. Source: mosaicml composer/core/state.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "trainer/core/batch.h"
#include "trainer/core/callback.h"
#include "trainer/core/dataset.h"
#include "trainer/core/event.h"
#include "trainer/core/metric.h"
#include "trainer/core/microbatch_policy.h"
#include "trainer/core/model.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/outputs.h"
#include "trainer/core/scheduler.h"
#include "trainer/core/tokenizer.h"
#include "trainer/core/tracer.h"
#include "trainer/step/grad_scaler.h"
#include "trainer/step/nan_policy.h"

namespace composer {

class ModelSharding;
class Prefetcher;

// kAmpFp16 scales the loss (step/grad_scaler.h). kAmpFp8 is kAmpBf16 with linear layers in 8 bits (init/amp_fp8.h).
// Source: mosaicml composer/core/precision.py.
enum class Precision { kFp32, kAmpBf16, kAmpFp16, kAmpFp8 };
// Returns "fp32", "amp_bf16", "amp_fp16" or "amp_fp8".
absl::string_view PrecisionName(Precision precision);

// The totals of one step over all ranks, known after the step's gradients are reduced.
struct StepTotals {
  double loss = 0;  // mean over the global batch
  int64_t samples = 0;
  int64_t tokens = 0;
};

// An Evaluator is one evaluation of a run: its data, metrics and interval. trainer/loop/eval_loop.h runs it. Source:
// mosaicml composer/core/evaluator.py.
struct Evaluator {
  std::string label;
  std::shared_ptr<const Loader> loader;  // not shuffled, nothing dropped, uneven shares
  std::shared_ptr<Prefetcher> batches;   // from loader; for the loop
  MetricList metrics;                    // after an evaluation they have its sums over all ranks
  Interval eval_interval;
  int64_t device_eval_microbatch_size = 0;  // samples per forward pass; 0: the whole batch
  int64_t last_batch = -1;                  // the training's batch when it last ran
};

// Which run this is and which place this process has in it. Set before the first event.
struct ProcessIdentity {
  std::string run_name;
  std::string run_folder;  // "" when nothing is written
  std::string load_path;   // LoadOptions::load_path
  uint64_t seed = 0;
  int rank = 0;
  int world_size = 1;
  // Ranks with another data_rank see other samples; the ranks of a tensor-parallel group (tensor_rank 0, 1, …) see the
  // same. Without tensor parallelism data_rank is rank.
  int data_rank = 0, data_ranks = 1;
  int tensor_rank = 0;
  at::Device device = at::kCPU;
};

// How a step is computed.
struct StepSettings {
  int64_t device_train_microbatch_size = 0;         // 0: the whole rank batch
  std::optional<MicrobatchPolicy> auto_microbatch;  // if set, it sets device_train_microbatch_size
  Precision precision = Precision::kFp32;
  std::optional<GradScaler> scaler;  // set with kAmpFp16
  NanPolicy nan;                     // decides what a step that is not finite does
  double scale_schedule_ratio = 1;
  bool accumulate_train_batch_on_tokens = false;  // microbatches are weighted by loss-generating tokens
};

// What State::timestamp is measured against.
struct RunClock {
  Time iteration_length;          // in epochs or tokens; 0: no iterations
  Timestamp previous_timestamp;   // before the last batch
  int64_t batches_per_epoch = 0;  // 0: unknown, or no training data
  // Set with composer_compat: the time at which schedules are read, which is the beginning of the last batch, not of
  // this one. Batches 0 and 1 both read the beginning of the run.
  std::optional<Timestamp> lagging;
};

// The running evaluation.
struct EvaluationInProgress {
  std::string label;
  Timestamp timestamp;
  int64_t batches = 0;  // of its data; 0: unknown
};

// What algorithms and callbacks have asked the trainer for. Read after every batch; see State's methods.
struct StepRequests {
  bool stop = false;
  bool save = false;
  bool skip_update = false;
  // Somebody asks for a profile of the next batches: set after the same step on all ranks, taken back by the profiler.
  bool profile = false;
};

struct State {
  // The parts of a run.
  std::shared_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the run has none
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  std::vector<std::unique_ptr<Algorithm>> algorithms;
  std::vector<std::unique_ptr<Callback>> callbacks;
  std::shared_ptr<const Loader> train_dataloader;  // null until there is training data
  // The loader in use: the training's, but that of an evaluation or a prediction while one runs. Null if there is none.
  const Loader* dataloader = nullptr;
  std::string data_place;             // of a training stream after this batch (LoadedBatch::place)
  std::vector<Evaluator> evaluators;  // those of the run; inside Trainer::Eval those that it was given
  MetricList train_metrics;
  ModelSharding* sharding = nullptr;  // not owned; null: every rank has whole parameters
  Tracer* tracer = nullptr;           // not owned; set by a profiler for the batches that it records, null otherwise

  // Where the run is.
  Timestamp timestamp;
  Time max_duration;
  Timestamp predict_timestamp;  // of the running prediction
  EvaluationInProgress evaluation;

  // The step in progress.
  int64_t global_samples = 0;  // of the batch in progress over all ranks, as the loader gave it
  Batch batch;                 // the whole rank batch at loader events, the microbatch inside forward/loss/backward
  Outputs outputs;
  at::Tensor loss;                                             // of the microbatch, before weighting
  std::vector<std::pair<std::string, at::Tensor>> loss_parts;  // when the model has several losses; Loss::parts
  StepTotals step;
  // Computes the loss in place of Model::loss, for algorithms that change it; empty: Model::loss.
  std::function<Loss(const Outputs& outputs, const Batch& batch)> loss_function;

  ProcessIdentity identity;
  RunClock clock;
  StepSettings settings;
  StepRequests requests;

  // Ends the run after the current batch, its evaluation and its checkpoint. With several ranks it ends after the next
  // batch, or at the end of the epoch if that comes first: the vote travels with that step's gradients, and all ranks
  // end together.
  void StopTraining() { requests.stop = true; }
  // Saves a checkpoint after the current batch whatever the save interval is; with several ranks after the next batch,
  // like StopTraining. Training goes on.
  void SaveCheckpoint() { requests.save = true; }
  // Leaves out the optimizer's update of this batch, if called up to AFTER_TRAIN_BATCH and on all ranks. The batch
  // counts as trained.
  void SkipUpdate() { requests.skip_update = true; }
};

}  // namespace composer
