// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/callbacks/oom_observer.h"
#include "trainer/core/out_of_memory_facts.h"
#include "trainer/optim/apply_schedulers.h"
#include "trainer/parallel/local_communicator.h"
#include "trainer/predict_loop.h"
#include "trainer/torch_status.h"
#include "trainer/virtual_shards.h"

namespace composer {
namespace {

// How long a run that failed by itself waits for the save in flight, so that the steps up to it are not lost. When it is
// another rank or the store that is gone, the save cannot end.
absl::Duration PatienceWithSave(const absl::Status& failure) {
  return absl::IsUnavailable(failure) ? absl::ZeroDuration() : absl::Seconds(20);
}

}  // namespace

Trainer::Trainer(TrainerOptions options) : options_(std::move(options)) {
  if (options_.communicator == nullptr) own_communicator_ = std::make_unique<LocalCommunicator>();
  if (options_.supervision == nullptr) own_supervision_ = std::make_unique<Supervision>();
  communicator_ = options_.communicator != nullptr ? options_.communicator : own_communicator_.get();
  supervision_ = options_.supervision != nullptr ? options_.supervision : own_supervision_.get();
}

Trainer::~Trainer() { Close(); }

void Trainer::Close() {
  if (engine_ != nullptr) engine_->Close();
  logger_.Close();
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(TrainerOptions options) {
  auto trainer = std::unique_ptr<Trainer>(new Trainer(std::move(options)));
  RETURN_IF_ERROR(Validate(trainer->options_, trainer->communicator_->world_size()));
  RETURN_IF_ERROR(CatchTorch([&] { return trainer->Build(); }));
  return trainer;
}

absl::Status Trainer::Build() {
  supervision_->OnPhase(RunPhase::kLoading);
  // Before anything else wraps the model's blocks.
  ASSIGN_OR_RETURN(const std::string wrapped, WrapActivations(*options_.model, options_.activations, options_.device));
  if (!wrapped.empty() && communicator_->rank() == 0) LOG(INFO) << wrapped;
  BuildState();
  for (auto& destination : options_.loggers) logger_.AddDestination(std::move(destination));
  for (const SaveOptions& save : options_.checkpoint_savers) {
    auto saver =
        std::make_unique<CheckpointSaver>(save, *communicator_, StoreFor("saver"), *supervision_, save_thread_);
    savers_.push_back(saver.get());
    state_.callbacks.push_back(std::move(saver));
  }
  AddMemoryTier();
  engine_ = std::make_unique<Engine>(state_, logger_, std::move(options_.engine));
  checkpoints_ =
      std::make_unique<RunCheckpoints>(options_.save, *communicator_, StoreFor("run"), *supervision_, save_thread_);
  RETURN_IF_ERROR(engine_->Run(Event::kInit));
  RETURN_IF_ERROR(engine_->Run(Event::kBeforeLoad));
  RETURN_IF_ERROR(Start());
  RETURN_IF_ERROR(BuildData());
  RETURN_IF_ERROR(CheckSchedulers());
  RETURN_IF_ERROR(checkpoints_->CheckFolder(state_));
  RETURN_IF_ERROR(engine_->Run(Event::kAfterLoad));
  if (resumed_from_.empty()) ShareInitialWeights();
  supervision_->OnStarted(resumed_from_, state_.timestamp.batch, state_.timestamp.sample);
  Clock* clock = options_.clock != nullptr ? options_.clock : &RealClock::Get();
  loop_ = std::make_unique<TrainLoop>(RunParts{state_, *engine_, logger_, *communicator_, *train_loader_,
                                               *train_batches_, evaluators_, *checkpoints_, AllCheckpoints(),
                                               *supervision_, *clock, options_.train_metrics_interval, fsdp_.get(),
                                               options_.ddp, static_cast<int>(saved_data_.virtual_shards)});
  return absl::OkStatus();
}

void Trainer::BuildState() {
  if (options_.virtual_shards != 0) at::set_num_threads(1);
  if (options_.deterministic_mode) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  state_.run_name = options_.run_name;
  state_.run_folder = options_.run_folder;
  state_.seed = options_.seed;
  state_.rank = communicator_->rank();
  state_.world_size = communicator_->world_size();
  state_.device = options_.device;
  state_.model = options_.model;
  state_.model->to(options_.device);
  if (options_.train_metrics_interval > 0) state_.train_metrics = state_.model->metrics(/*is_train=*/true);
  ShardModel();
  state_.optimizer = options_.make_optimizer(*state_.model);
  LogShardPlan();
  state_.schedulers = std::move(options_.schedulers);
  state_.algorithms = std::move(options_.algorithms);
  state_.callbacks = std::move(options_.callbacks);
  state_.max_duration = ScaledMaxDuration(options_);
  state_.iteration_length = options_.iteration_length;
  if (options_.composer_compat) state_.lagging.emplace();
  state_.precision = options_.precision;
  if (options_.precision == Precision::kAmpFp16) state_.scaler.emplace(GradScaler::Options{});
  state_.device_train_microbatch_size = std::max<int64_t>(0, options_.device_train_microbatch_size);
  state_.accumulate_train_batch_on_tokens = options_.accumulate_train_batch_on_tokens;
  state_.scale_schedule_ratio = options_.scale_schedule_ratio;
  if (options_.device_train_microbatch_size == kAutoMicrobatch) {
    // The real size is set once the batch size is known.
    state_.auto_microbatch.emplace(std::numeric_limits<int64_t>::max() / 4);
  }
}

void Trainer::AddMemoryTier() {
  if (options_.memory == nullptr) return;
  SaveOptions save;
  save.save_folder = "memory";
  save.save_interval = options_.save_memory_interval;
  save.save_num_checkpoints_to_keep = 2;  // the older one when a node was lost while the newer one was written
  save.save_overlap = SaveOverlap::kSkip;
  save.save_latest.clear();
  save.save_overwrite = true;
  save.best_effort = true;
  save.autoresume = options_.save.autoresume;
  save.open_store = [store = options_.memory](const std::string&) { return store; };
  auto saver = std::make_unique<CheckpointSaver>(save, *communicator_, StoreFor("memory"), *supervision_, save_thread_);
  memory_ = &saver->checkpoints();
  savers_.push_back(saver.get());
  state_.callbacks.push_back(std::move(saver));
}

// The snapshot in memory when it is newer than the newest checkpoint; "" else, also when it can't be loaded.
absl::StatusOr<std::string> Trainer::ResumeFromMemory() {
  if (memory_ == nullptr) return "";
  RETURN_IF_ERROR(memory_->Open(state_));
  const absl::StatusOr<std::optional<CheckpointName>> snapshot = memory_->Newest();
  ASSIGN_OR_RETURN(const std::optional<CheckpointName> durable, checkpoints_->Newest());
  if (!snapshot.ok()) {
    if (state_.rank == 0) LOG(WARNING) << "no snapshot from memory: " << snapshot.status().message();
    return "";
  }
  if (!snapshot->has_value() || (durable.has_value() && **snapshot <= *durable)) return "";
  absl::StatusOr<std::string> location = memory_->Resume(state_, saved_data_);
  if (location.ok()) return location;
  const absl::Status status = location.status();
  if (state_.rank == 0) LOG(WARNING) << "not from memory: " << status.message();
  if (durable.has_value()) return "";
  // Nothing to load over what it has left in the state: the next start begins anew.
  if (state_.rank == 0) options_.memory->DeleteTree((*snapshot)->ToString()).IgnoreError();
  return Annotate(status, "the snapshot in memory is damaged and there is no checkpoint yet");
}

absl::Status Trainer::Start() {
  RETURN_IF_ERROR(checkpoints_->Open(state_));
  ASSIGN_OR_RETURN(resumed_from_, ResumeFromMemory());
  if (resumed_from_.empty()) {
    ASSIGN_OR_RETURN(resumed_from_, checkpoints_->Resume(state_, saved_data_));
  }
  if (!resumed_from_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string loaded, checkpoints_->LoadFrom(options_.load, state_, saved_data_));
  if (loaded.empty()) return absl::OkStatus();
  if (state_.rank == 0) LOG(INFO) << "loaded " << loaded;
  if (saved_data_.global_train_batch_size == 0) return absl::OkStatus();  // weights only
  resumed_from_ = loaded;
  // The order of samples goes on as it was.
  if (saved_data_.seed != static_cast<int64_t>(state_.seed)) {
    LOG(WARNING) << "seed: " << state_.seed << " gives way to that of " << loaded << ", " << saved_data_.seed;
    state_.seed = static_cast<uint64_t>(saved_data_.seed);
  }
  return absl::OkStatus();
}

// As the global batch size, the number of virtual shards is part of what the run computes.
absl::StatusOr<int> Trainer::SettleVirtualShards() const {
  const int64_t wanted = options_.virtual_shards, saved = resumed_from_.empty() ? 0 : saved_data_.virtual_shards;
  if (wanted == 0) return 0;
  if (saved > 0 && wanted > 0 && saved != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("virtual_shards: ", wanted, ", but checkpoint ", resumed_from_,
                                                   " was trained with ", saved, "; keep that value"));
  }
  const int64_t shards = wanted > 0 ? wanted : saved > 0 ? saved : DefaultVirtualShards(state_.world_size);
  RETURN_IF_ERROR(ValidateVirtualShards(static_cast<int>(std::min<int64_t>(shards, 1 << 20)), state_.world_size));
  return static_cast<int>(shards);
}

// The global batch size is settled at the first launch and stays for the life of the run, whatever the number of ranks.
absl::Status Trainer::BuildData() {
  ASSIGN_OR_RETURN(const int virtual_shards, SettleVirtualShards());
  const TrainDataOptions& train = options_.train;
  const bool resumed = !resumed_from_.empty();
  const int64_t configured = train.global_train_batch_size;  // 0: not given
  if (resumed && configured > 0 && configured != saved_data_.global_train_batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("global_train_batch_size: ", configured, ", but checkpoint ", resumed_from_, " was trained with ",
                     saved_data_.global_train_batch_size,
                     "; keep that value, or start a new run (another run_name, or autoresume: false)"));
  }
  if (resumed && saved_data_.dataset_size != train.dataset->size()) {
    return absl::InvalidArgumentError(absl::StrCat("train_dataloader: the dataset has ", train.dataset->size(),
                                                   " samples, but checkpoint ", resumed_from_, " was trained on ",
                                                   saved_data_.dataset_size));
  }
  int64_t global_batch = resumed ? saved_data_.global_train_batch_size : configured;
  if (global_batch == 0) global_batch = train.device_train_batch_size * state_.world_size;
  const SavedDataSettings settings{global_batch, train.dataset->size(), static_cast<int64_t>(state_.seed),
                                   virtual_shards};
  saved_data_ = settings;
  checkpoints_->SetDataSettings(settings);
  for (CheckpointSaver* saver : savers_) saver->SetDataSettings(settings);
  DataLoader::Options loader;
  loader.label = train.label;
  loader.global_batch_size = global_batch;
  loader.shuffle = train.shuffle;
  loader.drop_last = train.drop_last;
  loader.seed = state_.seed;
  loader.rank = state_.rank;
  loader.world_size = state_.world_size;
  loader.subset_num_batches = train.train_subset_num_batches;
  train_loader_ = std::make_shared<DataLoader>(train.dataset, loader);
  train_batches_ = std::make_unique<Prefetcher>(train_loader_, train.prefetch);
  state_.batches_per_epoch = train_loader_->batches_per_epoch();
  if (state_.auto_microbatch) {
    state_.auto_microbatch->LimitTo((global_batch + state_.world_size - 1) / state_.world_size);
    state_.device_train_microbatch_size = state_.auto_microbatch->size();
  }
  return BuildEvaluators(loader);
}

absl::Status Trainer::BuildEvaluators(DataLoader::Options loader) {
  for (const EvaluatorOptions& options : options_.evaluators) {
    loader.label = options.label;
    loader.global_batch_size = options.batch_size * state_.world_size;
    loader.shuffle = loader.drop_last = false;
    loader.subset_num_batches = options.subset_num_batches;
    Evaluator evaluator;
    evaluator.label = options.label;
    evaluator.loader = std::make_shared<DataLoader>(options.dataset, loader);
    evaluator.batches = std::make_unique<Prefetcher>(evaluator.loader, options.prefetch);
    ASSIGN_OR_RETURN(evaluator.metrics, SelectMetrics(state_.model->metrics(/*is_train=*/false), options.metric_names));
    evaluator.eval_interval = options.eval_interval;
    evaluator.device_eval_microbatch_size = options.device_eval_microbatch_size;
    evaluators_.push_back(std::move(evaluator));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CheckSchedulers() const {
  if (state_.max_duration.count() == 0) return absl::OkStatus();  // Fit will say it
  const ScheduleContext context{state_.max_duration, state_.batches_per_epoch, state_.scale_schedule_ratio};
  return Annotate(composer::CheckSchedulers(state_.schedulers, context, *state_.optimizer), "schedulers");
}

// Keys of its own for each that coordinates through the store.
c10::intrusive_ptr<c10d::Store> Trainer::StoreFor(absl::string_view user) {
  if (options_.store == nullptr) return nullptr;
  return c10::make_intrusive<c10d::PrefixStore>(absl::StrCat(user, num_stores_++), options_.store);
}

std::vector<RunCheckpoints*> Trainer::AllCheckpoints() const {
  std::vector<RunCheckpoints*> all = {checkpoints_.get()};
  for (CheckpointSaver* saver : savers_) all.push_back(&saver->checkpoints());
  return all;
}

// Before the optimizer is made, so that its state is that of the shards.
void Trainer::ShardModel() {
  if (!options_.fsdp || options_.fsdp->strategy == ShardingStrategy::kNoShard) return;
  MeshDegrees degrees;
  ThrowIfError(ResolveDegrees(*options_.fsdp, communicator_->world_size(), degrees));
  if (degrees.shard == 1) return;
  mesh_ = std::make_unique<Mesh>(*communicator_, MeshShape{degrees.replicate, degrees.shard});
  const Fsdp::Ranks ranks{communicator_, &mesh_->shard(), degrees.replicate == 1 ? nullptr : &mesh_->replicate()};
  fsdp_ = std::make_unique<Fsdp>(*state_.model, ranks, *options_.fsdp, TrainBatch::TailLength(state_));
  state_.sharding = fsdp_.get();
}

void Trainer::LogShardPlan() {
  if (fsdp_ == nullptr || !options_.fsdp->verbose || state_.rank != 0) return;
  int64_t optimizer_bytes = 0;
  for (const auto& [name, tensor] : state_.optimizer->state()) optimizer_bytes += static_cast<int64_t>(tensor.nbytes());
  LOG(INFO) << "fsdp: " << PlanText(fsdp_->Plan(optimizer_bytes));
}

void Trainer::ShareInitialWeights() {
  if (state_.world_size == 1) return;
  const torch::NoGradGuard no_grad;
  if (fsdp_ == nullptr) {
    for (const at::Tensor& param : state_.model->parameters()) communicator_->Broadcast(param.detach(), 0);
  }
  BroadcastBuffers(*state_.model, *communicator_);
}

std::vector<std::pair<std::string, double>> Trainer::eval_results() const {
  std::vector<std::pair<std::string, double>> results;
  for (const Evaluator& evaluator : evaluators_) {
    if (evaluator.last_batch < 0) continue;
    for (const auto& metric : evaluator.metrics) {
      results.emplace_back(absl::StrCat("metrics/", evaluator.label, "/", metric->name()), metric->Compute());
    }
  }
  return results;
}

absl::Status Trainer::ApplyFitOptions(const FitOptions& options) {
  if (options.reset_time) state_.timestamp = state_.previous_timestamp = Timestamp();
  if (options.reset_time && state_.lagging) state_.lagging = Timestamp();
  if (options.reset_time && !options.duration) state_.max_duration = ScaledMaxDuration(options_);
  if (options.duration) {
    RETURN_IF_ERROR(ValidateDuration("duration", *options.duration, options_));
    const TimeUnit unit = options.duration->unit();
    state_.max_duration = Time(state_.timestamp.Get(unit) + options.duration->count(), unit);
  }
  if (state_.max_duration.count() == 0)
    return absl::InvalidArgumentError("max_duration: required, of the trainer or as Fit's duration");
  const bool complete = state_.timestamp.Get(state_.max_duration.unit()) >= state_.max_duration.count();
  if (complete && was_fitted_) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_duration: ", state_.max_duration.ToString(),
                     " is reached already; give Fit a duration to train longer, or reset_time to begin anew"));
  }
  if (options.precision) {
    state_.precision = *options.precision;
    if (state_.precision != Precision::kAmpFp16) state_.scaler.reset();
    if (state_.precision == Precision::kAmpFp16 && !state_.scaler) state_.scaler.emplace(GradScaler::Options{});
  }
  if (options.device_train_microbatch_size) {
    if (state_.auto_microbatch || *options.device_train_microbatch_size < 0)
      return absl::InvalidArgumentError("device_train_microbatch_size: auto is settled when the trainer is made");
    state_.device_train_microbatch_size = *options.device_train_microbatch_size;
  }
  return CheckSchedulers();
}

absl::Status Trainer::Fit(const FitOptions& options) {
  RETURN_IF_ERROR(ApplyFitOptions(options));
  was_fitted_ = true;
  absl::Status status = CatchTorch([this] { return loop_->Run(); });
  if (!status.ok()) {
    for (RunCheckpoints* checkpoints : AllCheckpoints()) checkpoints->FinishQuietly(PatienceWithSave(status));
  }
  return Explained(std::move(status));
}

absl::Status Trainer::Explained(absl::Status status) {
  if (!IsOutOfMemory(status)) return status;
  ReportOutOfMemory(state_, logger_, status.message());
  return OutOfMemoryStatus(OutOfMemoryAdvice(OutOfMemoryFactsOf(state_, status.message(), options_.visible_devices)));
}

absl::StatusOr<std::vector<at::Tensor>> Trainer::Predict(const PredictOptions& options) {
  if (options.dataset == nullptr || options.dataset->size() == 0)
    return absl::InvalidArgumentError("predict: the dataset is missing or empty");
  if (options.batch_size < 1) return absl::InvalidArgumentError("predict: batch_size must be at least 1");
  std::vector<at::Tensor> outputs;
  RETURN_IF_ERROR(Explained(CatchTorch([&] {
    DataLoader::Options loader;
    loader.label = "predict";
    loader.global_batch_size = options.batch_size * state_.world_size;
    loader.rank = state_.rank;
    loader.world_size = state_.world_size;
    loader.subset_num_batches = options.subset_num_batches;
    const auto shared = std::make_shared<DataLoader>(options.dataset, loader);
    Prefetcher batches(shared, options.prefetch);
    outputs = RunPredict(*shared, batches, options.return_outputs, state_, *engine_);
  })));
  return outputs;
}

absl::StatusOr<std::string> Trainer::SaveCheckpoint(const std::string& folder, bool weights_only) {
  std::string location;
  RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    if (folder.empty() && options_.save.save_folder.empty())
      return absl::InvalidArgumentError("save_folder: the trainer has none, so SaveCheckpoint needs a folder");
    if (folder.empty() && !weights_only) {
      checkpoints_->SaveNow(state_);
      location = checkpoints_->last_location();
      return absl::OkStatus();
    }
    SaveOptions options;
    options.save_folder = folder.empty() ? options_.save.save_folder : folder;
    options.save_weights_only = weights_only;
    options.open_store = options_.save.open_store;
    options.autoresume = false;
    for (RunCheckpoints* checkpoints : AllCheckpoints()) checkpoints->Finish();  // one saver at a time in a folder
    RunCheckpoints once(options, *communicator_, StoreFor("once"), *supervision_, /*thread=*/nullptr);
    RETURN_IF_ERROR(once.Open(state_));
    once.SetDataSettings(saved_data_);
    once.SaveNow(state_);
    location = once.last_location();
    return absl::OkStatus();
  }));
  return location;
}

absl::Status Trainer::Eval() {
  return Explained(CatchTorch([this]() -> absl::Status {
    RETURN_IF_ERROR(engine_->Run(Event::kEvalStandaloneStart));
    for (Evaluator& evaluator : evaluators_) RunEvaluator(evaluator, state_, *engine_, *communicator_, logger_);
    return engine_->Run(Event::kEvalStandaloneEnd);
  }));
}

}  // namespace composer
