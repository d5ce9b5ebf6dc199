// The trainer builds a run from its options in Composer's order and drives it. It is composition only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/loop/train_loop.h"
#include "trainer/options/trainer_options.h"
#include "trainer/parallel_model.h"
#include "trainer/resume/checkpoint_saver.h"
#include "trainer/resume/required_algorithms.h"

namespace composer {

// The advice at the end of a refusal to resume with another setting, whose name follows.
inline constexpr absl::string_view kPermitChange =
    "keep that value, start a new run (another run_name, or autoresume: false), or permit it by resume_changes: [";

// Threads: one. Everything in options that is not owned must outlive the trainer.
class Trainer {
  using NamedParameterList = torch::OrderedDict<std::string, at::Tensor>;

 public:
  // Validates, builds (INIT), and loads the newest checkpoint (BEFORE_LOAD, AFTER_LOAD). On a fresh start rank 0's
  // parameters go to all ranks. Returns kInvalidArgument naming an option, and kInvalidArgument or kDataLoss from
  // loading.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(TrainerOptions options);
  ~Trainer();

  // Trains to max_duration. Returns OK when the run is complete, kCancelled after a drain (a checkpoint is committed),
  // otherwise the error, by torch_status.h. May be called again with a duration or reset_time; without them a complete
  // run is kInvalidArgument, except at the first call, so that a finished job may be started again: its end
  // (evaluation, FIT_END) is then repeated unless TrainerOptions::has_ended. Options that are refused, and a run
  // without training data, are kInvalidArgument and change nothing. The first data after a checkpoint was loaded must
  // be the checkpoint's (dataset size and batch size), unless TrainerOptions::may_change permits it.
  absl::Status Fit(FitOptions options = {});
  // Runs every evaluator once (EVAL_STANDALONE_START/END); those of the options once only. kInvalidArgument if there is
  // none.
  absl::Status Eval(const EvalOptions& options = {});
  // Returns the outputs of Model::forward on this rank's share of each batch, on the CPU, in order; empty without
  // return_outputs. Throws nothing: LibTorch's exceptions are returned as a Status.
  struct PredictOptions {
    std::shared_ptr<const Dataset> dataset;  // not empty
    DataSpec spec;
    int64_t batch_size = 256;  // per data-parallel rank
    int64_t subset_num_batches = -1;
    bool return_outputs = true;
    Prefetcher::Options prefetch;
  };
  absl::StatusOr<std::vector<Outputs>> Predict(const PredictOptions& options);
  // Returns what the model appends to each prompt, in order and on every rank; all ranks must call it
  // (generate_loop.h).
  absl::StatusOr<std::vector<std::string>> Generate(const std::vector<std::string>& prompts,
                                                    const GenerateOptions& options = {});
  // Saves into `folder`, under the name of the step (`ep1-ba20`), whatever the save interval is; returns the location.
  // "" means the save_folder. All ranks must call it.
  absl::StatusOr<std::string> SaveCheckpoint(const std::string& folder = "", bool weights_only = false);

  // Returns the checkpoints that this trainer has saved into its save_folder and that are still kept, the oldest first.
  std::vector<std::string> saved_checkpoints() const { return checkpoints_->saved_locations(); }

  // Closes callbacks and loggers once; the destructor does so otherwise. Nothing may be run afterwards.
  void Close();

  State& state() { return state_; }
  Logger& logger() { return logger_; }
  // Returns the checkpoint that this run started from; "" from scratch.
  const std::string& resumed_from() const { return resumed_from_; }
  // Returns the checkpoint that load_path led to; "" if it was not used.
  const std::string& loaded_from() const { return loaded_from_; }
  int64_t collectives_per_step() const { return loop_->collectives_per_step(); }
  // Returns the values of the last evaluations, those of Eval's own evaluators last: ("metrics/<label>/<metric>",
  // value); empty before the first.
  std::vector<std::pair<std::string, double>> eval_results() const;
  const Engine& engine() const { return *engine_; }

 private:
  explicit Trainer(TrainerOptions options);
  absl::Status Build();
  absl::StatusOr<int> SettleVirtualShards() const;
  absl::Status BuildData();
  void BuildIdentity();     // who and where this rank is, before the model is made
  void BuildCheckpoints();  // what saves and loads, before the model is made
  absl::StatusOr<CheckpointRequirements> SavedRequirements();
  absl::Status ChangeModel();  // adds the algorithms that the checkpoint requires, and lets all change the model
  std::unique_ptr<Optimizer> MakeOptimizer();
  // Makes the optimizer know parameters of the model that were added, removed or replaced since it was made. If ranks
  // hold pieces of the parameters, a change is kInvalidArgument, naming one.
  absl::Status FollowParameters();
  absl::Status CheckParameters() const;  // the same of any change
  void BuildState();
  // Training data that is checked and made, while the run still has what it had.
  struct PreparedData {
    TrainDataOptions options;
    TrainData data;
    SavedDataSettings settings;
    bool is_other = false;  // than what the run has seen so far of its epoch
  };
  absl::StatusOr<PreparedData> PrepareData(const TrainDataOptions& train) const;
  absl::Status CheckSavedData(const TrainDataOptions& train) const;
  void UseData(PreparedData prepared);
  LoaderOptions OptionsOfLoaders() const;
  absl::StatusOr<std::vector<Evaluator>> MakeEvaluators(const std::vector<EvaluatorOptions>& evaluators) const;
  void AddMemoryTier();
  absl::StatusOr<std::string> ResumeFromMemory();
  bool MayChange(absl::string_view setting) const;  // TrainerOptions::may_change
  absl::Status CheckSeed() const;
  void KeepPlaceInEpoch();
  absl::Status Start();  // sets the initial timestamp, weights and data settings
  absl::Status CheckSchedulers(const SchedulerList& schedulers, const ScheduleContext& context) const;
  absl::Status CheckGenerate();
  // Adds the advice of memory/out_of_memory.h to an out-of-memory error and reports it to the OOMObservers; returns
  // other errors unchanged.
  absl::Status Explained(absl::Status status);
  // Returns what Fit is to do, checked before anything in the state changes.
  absl::StatusOr<Time> MaxDurationOf(const FitOptions& options) const;
  absl::Status CheckMicrobatchOf(const FitOptions& options) const;
  absl::Status CheckScheduleOptions(const FitOptions& options) const;
  TrainDataOptions TrainDataOf(const FitOptions& options) const;
  std::vector<EvaluatorOptions> EvaluatorsOf(const FitOptions& options) const;
  absl::Status ApplyFitOptions(FitOptions& options);
  void UsePrecision(Precision precision);
  void UseMicrobatch(int64_t size);
  absl::StatusOr<bool> NothingToDo();  // equal on all ranks
  c10::intrusive_ptr<c10d::Store> StoreFor(absl::string_view user);
  std::vector<RunCheckpoints*> AllCheckpoints() const;

  TrainerOptions options_;
  std::unique_ptr<Communicator> own_communicator_;
  std::unique_ptr<Supervision> own_supervision_;
  Communicator* communicator_;
  Supervision* supervision_;
  State state_;
  Logger logger_;
  std::unique_ptr<ParallelModel> parallel_;
  std::unique_ptr<Engine> engine_;
  NamedParameterList known_;           // the parameters for which the optimizer was made
  std::vector<at::Tensor> trainable_;  // those of them that were not frozen then
  TrainData train_data_;
  std::vector<std::pair<std::string, double>> own_results_;  // of the last Eval with evaluators of its own
  std::shared_ptr<SaveThread> save_thread_ = std::make_shared<SaveThread>();
  std::unique_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<TrainLoop> loop_;
  std::vector<CheckpointSaver*> savers_;  // those among state_.callbacks
  RunCheckpoints* memory_ = nullptr;      // belongs to one of savers_: the memory tier
  SavedDataSettings saved_data_;
  std::string resumed_from_, loaded_from_;
  bool own_history_ = false;  // resumed from a checkpoint of this run
  bool was_fitted_ = false;
  bool default_optimizer_ = false;
  bool peers_are_gone_ = false;
  int64_t num_stores_ = 0;
  std::unique_ptr<AttentionHold> attention_;  // on a GPU
  int threads_before_ = 0;                    // torch's threads, if this trainer has changed their number
};

}  // namespace composer
