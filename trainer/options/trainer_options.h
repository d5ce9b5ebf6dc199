// These options define a Trainer. Names and defaults are those of Composer's Trainer arguments (mosaicml
// composer/trainer/trainer.py), except that seed is 0 (there: drawn), save.autoresume is true, and checkpoints are
// named ep{epoch}-ba{batch}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/time.h"
#include "checkpoint/format/run_identity.h"
#include "storage/object_store.h"
#include "trainer/core/callback.h"
#include "trainer/core/communicator.h"
#include "trainer/core/engine.h"
#include "trainer/core/event.h"
#include "trainer/core/logger.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/state.h"
#include "trainer/core/supervision.h"
#include "trainer/layers/attention_backend.h"
#include "trainer/layers/fp8_recipe.h"
#include "trainer/options/activation_options.h"
#include "trainer/options/checkpoint_options.h"
#include "trainer/options/data_options.h"
#include "trainer/options/ddp_options.h"
#include "trainer/options/fsdp_options.h"
#include "trainer/options/generate_options.h"
#include "trainer/options/layer_plan.h"

namespace composer {

class GraphCapture;  // step/device_graph.h

struct TrainerOptions {
  std::string run_name = "run";
  std::string run_folder;
  std::shared_ptr<Model> model;
  // Alternative to `model`: makes it. The trainer then builds it without memory for its parameters and gives each rank
  // only the values of its pieces, the same on any number of ranks, sharded or not (init/deferred_init.h).
  std::function<std::shared_ptr<Model>()> make_model;
  // Becomes State::tokenizer; generation uses it in place of the model's own encoding. May be null.
  std::shared_ptr<const Tokenizer> tokenizer;
  TrainDataOptions train;  // without a dataset Fit must be given one; a trainer that only evaluates needs none
  std::vector<EvaluatorOptions> evaluators;
  bool eval_first = false;  // all of them run once before the first step; a run that resumes after it leaves them out
  // Called with the model's final parameters. Empty means DecoupledSGDW(0.1), with a warning from Fit, as in Composer.
  OptimizerFactory make_optimizer;
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  // If set, the schedulers step every batch, or every epoch, whatever their own specs say; it is an error for a
  // schedule that has no such choice (core/scheduler.h, StepEveryBatch).
  std::optional<bool> step_schedulers_every_batch;
  double scale_schedule_ratio = 1;  // of max_duration and of the schedules
  Time max_duration;      // > 0; not dur, nor iter without iteration_length. Default 0: Fit's duration decides
  Time iteration_length;  // epochs or tokens per iteration; 0: no iterations
  std::vector<std::unique_ptr<Algorithm>> algorithms;
  // Makes an algorithm that a checkpoint names because it changed the model (Algorithm::required_on_load) and that
  // `algorithms` lacks. Null: such a checkpoint is an error.
  std::function<absl::StatusOr<std::unique_ptr<Algorithm>>(const AlgorithmOrigin&)> make_algorithm;
  // For classes of layers that algorithms do not know; see Surgery (algorithms/surgery/surgery.h).
  std::vector<LayerPolicy> layer_policies;
  EngineOptions engine;  // algorithm_passes, log_traces
  std::vector<std::unique_ptr<Callback>> callbacks;
  std::vector<GenerateCallback> generate;  // texts to log at intervals; the model must be a CausalDecoder
  std::vector<std::unique_ptr<LoggerDestination>> loggers;
  SaveOptions save;
  std::vector<SaveOptions> checkpoint_savers;  // further savers with folders of their own (Composer's CheckpointSaver)
  // This is the memory tier: snapshots between the checkpoints of `save`, in the memory of the nodes
  // (worker/peer_store.h). A run resumes from the newest of either. May be null.
  std::shared_ptr<ObjectStore> memory;
  Time save_memory_interval = Time::Batches(10);
  LoadOptions load;
  // This is the run's configuration as JSON, saved in every checkpoint and passed to SaveOptions::on_resume by a run
  // that resumes. May be "".
  std::string configuration;
  // Says by dotted path which settings may differ from the checkpoint's although its state depends on them:
  // "global_train_batch_size", "train_dataloader", "seed", "virtual_shards". Null means that none may.
  std::function<bool(absl::string_view)> may_change;
  // True if an earlier process of this run came to its end, FIT_END included: when there is nothing left to train, the
  // first Fit then does nothing. Rank 0's value counts.
  bool has_ended = false;
  std::string visible_devices;   // CUDA_VISIBLE_DEVICES, to find the GPU in the driver's list; "": all
  at::Device device = at::kCPU;  // the model is moved there before the optimizer is made
  Precision precision = Precision::kFp32;
  Fp8Recipe precision_config;                // with kAmpFp8
  LayerChoice keep_in_fp32;                  // layers that compute in float32 with any precision (init/keep_fp32.h)
  int64_t device_train_microbatch_size = 0;  // samples; 0: the whole rank batch; kAutoMicrobatch
  bool accumulate_train_batch_on_tokens = false;
  int64_t train_metrics_interval = 1;  // batches between computations of the train metrics; 0: never
  DdpOptions ddp;
  ActivationOptions activations;
  uint64_t seed = 0;
  bool deterministic_mode = false;  // an operation without a deterministic implementation is an error
  AttentionBackend attention_backend = AttentionBackend::kAuto;  // on a GPU: which kernels compute attention
  // Implements determinism: elastic. The number of virtual shards (virtual_shards.h), frozen in the checkpoint. 0 is
  // off; kDefaultVirtualShards takes the checkpoint's, or what suits the first launch. Sets torch's threads to one,
  // since kernels round differently with other numbers.
  int virtual_shards = 0;
  // Behaves as Composer does where Composer is wrong: a schedule's factor is that of one batch earlier; of several
  // schedules only the last counts; on_nan is kContinue.
  bool composer_compat = false;
  // Decides what a step does whose loss or gradients are NaN or infinite. If unset, kStop.
  std::optional<OnNan> on_nan;

  // Spreads parameters, gradients and optimizer state over ranks. If unset, every rank holds everything (DDP). If set,
  // only optimizers that work element by element can be used, not Muon.
  std::optional<FsdpOptions> fsdp;

  // Tensor parallelism: this many neighbouring ranks share each matrix product and see the same samples; the rest of
  // the mesh is data parallel, by fsdp. More than 1 requires one of the two that follow. layer_plan names the Linear
  // layers to split, of any model, also after surgery (parallel/tensor/layer_plan.h). split_model makes this rank's
  // part of the model, with the values of the whole model where it has some (MakeTensorParallelGpt, say); it is used
  // when the plan is empty. A model from make_model has no values yet; the trainer then gives each part its values,
  // from one whole parameter at a time.
  int tensor_parallel_degree = 1;
  LayerPlan layer_plan;
  std::function<std::shared_ptr<Model>(const Model& whole, Communicator& group)> split_model;

  // Coordinates saves and loads; required when there are several ranks. Its keys must be this trainer's own.
  c10::intrusive_ptr<c10d::Store> store;

  // cuda_graphs: steps with static shapes are captured and replayed (loop/step_graphs.h). The thread that makes and
  // runs the trainer must then have another current stream than the device's default one throughout. Not owned; null:
  // off.
  GraphCapture* graphs = nullptr;

  // These are not owned and must outlive the trainer. Null means one rank, no supervision and the real clock.
  Communicator* communicator = nullptr;
  Supervision* supervision = nullptr;
  Clock* clock = nullptr;

  LaunchId launch;  // of the launcher that started this rank; without one an id is drawn
};

// As device_train_microbatch_size this starts with the whole batch and finds what fits (core/microbatch_policy.h).
inline constexpr int64_t kAutoMicrobatch = -1;

inline constexpr int kDefaultVirtualShards = -1;

// FitOptions are what one Fit call may set; unset fields stay as they are, and what is set stays for later calls.
// Source: mosaicml composer/trainer/trainer.py, fit().
struct FitOptions {
  std::optional<Time> duration;  // trains this much longer, from the current position
  bool reset_time = false;       // the timestamp and max_duration start over
  std::optional<int64_t> device_train_microbatch_size;
  std::optional<Precision> precision;
  // Other training data. Without a batch size it keeps the one so far. In the middle of an epoch training goes on after
  // as many samples of the new data as were seen of the old. Checkpoints from then on belong to this data: a run
  // resumes from them with it alone.
  std::optional<TrainDataOptions> train;
  std::optional<int64_t> train_subset_num_batches;  // batches per epoch; -1: all
  std::optional<std::vector<EvaluatorOptions>> evaluators;
  std::optional<Interval> eval_interval;           // of every evaluator
  std::optional<int64_t> eval_subset_num_batches;  // of every evaluator; -1: all
  std::optional<std::vector<std::unique_ptr<Scheduler>>> schedulers;
  // These two need `schedulers`. The ratio, 1 if not given, scales them and this Fit's max_duration.
  std::optional<double> scale_schedule_ratio;
  std::optional<bool> step_schedulers_every_batch;
};

// EvalOptions are what one Eval call may set. Source: mosaicml composer/trainer/trainer.py, eval().
struct EvalOptions {
  std::vector<EvaluatorOptions> evaluators;   // empty: the trainer's
  std::optional<int64_t> subset_num_batches;  // of every evaluator; -1: all
};

// Returns max_duration x scale_schedule_ratio, in whole counts.
Time ScaledMaxDuration(const TrainerOptions& options);

// Returns a time x ratio, in whole counts; shares of a run stay.
Time ScaledTime(const Time& time, double ratio);

// These return kInvalidArgument naming the field, its value and what is allowed; data_ranks see different samples.
absl::Status ValidateTrainData(const TrainDataOptions& train, int data_ranks);
// Epochs of a stream have no known length: a duration that counts them is an error, unless a subset limits them.
absl::Status ValidateLength(const TrainDataOptions& train, const Time& max_duration);
absl::Status ValidateEvaluators(const std::vector<EvaluatorOptions>& evaluators, const TrainerOptions& options);
absl::Status ValidateScaleScheduleRatio(double ratio, const Time& max_duration);

// Checks that a run can last this long. Returns kInvalidArgument naming the field and what is allowed.
absl::Status ValidateDuration(absl::string_view field, const Time& duration, const TrainerOptions& options);

// Returns kInvalidArgument naming the field, its value and what is allowed.
absl::Status Validate(const TrainerOptions& options, int world_size);

}  // namespace composer
