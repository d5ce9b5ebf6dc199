// These options define a Trainer. Names and defaults are those of Composer's Trainer arguments (mosaicml
// composer/trainer/trainer.py), except that seed is 0 (there: drawn), save.autoresume is true, and checkpoints are
// named ep{epoch}-ba{batch}. SPDX-License-Identifier: Apache-2.0
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
#include "checkpoint/format/ignored_keys.h"
#include "checkpoint/format/run_identity.h"
#include "storage/file_system.h"
#include "storage/object_store.h"
#include "trainer/core/callback.h"
#include "trainer/core/communicator.h"
#include "trainer/core/dataset.h"
#include "trainer/core/engine.h"
#include "trainer/core/event.h"
#include "trainer/core/logger.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/state.h"
#include "trainer/core/supervision.h"
#include "trainer/layers/fp8_recipe.h"
#include "trainer/options/activation_options.h"
#include "trainer/options/ddp_options.h"
#include "trainer/options/fsdp_options.h"
#include "trainer/options/generate_options.h"
#include "trainer/options/layer_plan.h"
#include "trainer/options/prefetch_options.h"

namespace composer {

class GraphCapture;  // step/device_graph.h

struct TrainDataOptions {
  std::shared_ptr<const Dataset> dataset;
  std::string label = "train";
  DataSpec spec;  // what is done with each batch
  // Samples of one optimizer step over all ranks. 0 means device_train_batch_size x the ranks of the first launch (then
  // frozen in the checkpoint).
  int64_t global_train_batch_size = 0;
  int64_t device_train_batch_size = 0;
  bool shuffle = true;
  OrderFactory make_order;  // in place of `shuffle`; empty: none. Not for an IterableDataset, which has its own order
  bool drop_last = false;
  int64_t train_subset_num_batches = -1;  // batches per epoch; -1: all
  int64_t predownload = 0;                // samples ahead that Dataset::WillLoad hears of
  // Composer's DataLoader arguments. With 0 threads the training thread loads.
  PrefetchOptions prefetch;
};

// An evaluator is one evaluation: its data, its metrics (from the model's evaluation metrics) and its interval.
struct EvaluatorOptions {
  std::string label = "eval";
  std::shared_ptr<const Dataset> dataset;
  DataSpec spec;
  int64_t batch_size = 256;  // per rank
  int64_t subset_num_batches = -1;
  // A time with count 0 means only on request. A function is asked at BATCH_END, EPOCH_END, ITERATION_END and FIT_END.
  Interval eval_interval = Time::Epochs(1);
  // Selects among the model's evaluation metrics: regular expressions that match anywhere in the name, ignoring case.
  // Empty selects all.
  std::vector<std::string> metric_names;
  // Makes this evaluation's own metrics in place of the model's. Empty: the model's.
  std::function<MetricList()> make_metrics;
  int64_t device_eval_microbatch_size = 0;  // samples per forward pass; 0: the whole batch; kAutoMicrobatch
  PrefetchOptions prefetch;
};

// SaveOverlap is what happens to a save that is due while the one before it is still being written.
enum class SaveOverlap { kWait, kSkip };

// A ResumePoint is a checkpoint that a run is about to resume from.
struct ResumePoint {
  std::string location;
  std::string saved_at;       // RFC 3339, UTC
  std::string configuration;  // SavedDataSettings::configuration as saved; "" in older checkpoints
};

// SaveTopK keeps the checkpoints at which a metric was best. One that was saved without the metric having been measured
// at that very batch is never among them; the newest checkpoint stays anyway, so that the run can resume.
struct SaveTopK {
  std::string monitor;  // "metrics/eval/MulticlassAccuracy", "metrics/train/…", "loss/train/total"
  int k = 1;
  bool less_is_better = false;
};

struct SaveOptions {
  std::string save_folder;  // a path, or a URL that open_store knows; "": no checkpoints
  // A function is asked at BATCH_CHECKPOINT, EPOCH_CHECKPOINT and ITERATION_CHECKPOINT; a batch is saved once.
  Interval save_interval = Time::Epochs(1);
  int save_num_checkpoints_to_keep = -1;  // -1: all
  bool autoresume = true;                 // start from the newest valid checkpoint of save_folder, if any
  bool save_overwrite = false;            // replace valid checkpoints of the same step that another run wrote
  bool save_weights_only = false;         // save model tensors only; no run can resume from it
  std::string save_latest = "latest";     // the file that holds the newest checkpoint's name, for people; "": none
  // Names a file below save_folder that leads to the checkpoint, by placeholders (saved_names.h): "step{batch}.pt"; "":
  // none.
  std::string save_filename;
  std::optional<SaveTopK> save_top_k;  // with save_num_checkpoints_to_keep, the newest stay, too
  bool save_metrics = false;           // save what metrics have summed up, too (resume/saved_metrics.h)
  bool save_async = true;              // copy the state, then train on while it is written
  SaveOverlap save_overlap = SaveOverlap::kWait;
  IgnoredKeys save_ignore_keys;  // of tensor names and small keys; see saved_state.h
  // If true, a failed save is logged as a warning and ends these saves instead of the run; the supervision is not
  // notified, and the newest checkpoint is chosen without reading it (complete_choice.h). For storage that may
  // disappear at any time.
  bool best_effort = false;
  // Called on every rank with the checkpoint to resume from, before anything of it is loaded; an error ends the run.
  // May be empty.
  std::function<absl::Status(const ResumePoint&)> on_resume;
  FileSystem* files = nullptr;  // for a local save_folder; null: the machine's. Must outlive the trainer
  StoreOpener open_store;       // for a save_folder that is a URL; empty: paths only
};

// LoadOptions say where the initial weights come from when there is nothing to resume.
struct LoadOptions {
  std::string load_path;           // a checkpoint, a folder of them or a run's folder (its newest valid one); "": none
  bool load_weights_only = false;  // load only the model's tensors; the run begins at batch 0
  bool load_strict_model_weights = true;             // false: missing and unexpected tensors of the model are ignored
  IgnoredKeys load_ignore_keys;                      // "model/head.*", "optimizer/*", "timestamp"
  std::vector<std::string> load_exclude_algorithms;  // algorithms whose state is not loaded and that
                                                     // are not added because the checkpoint requires them
  StoreOpener open_store;                            // for a load_path that is a URL; empty: paths only
};

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
