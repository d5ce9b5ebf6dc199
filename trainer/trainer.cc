// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "checkpoint/format/run_identity.h"
#include "trainer/callbacks/memory/oom_observer.h"
#include "trainer/core/communicator.h"
#include "trainer/core/tokenizer.h"
#include "trainer/core/torch_status.h"
#include "trainer/init/keep_fp32.h"
#include "trainer/loop/eval_loop.h"
#include "trainer/memory/out_of_memory_facts.h"
#include "trainer/models/across_ranks.h"
#include "trainer/models/hugging_face_model.h"
#include "trainer/optim/apply_schedulers.h"
#include "trainer/optim/recipes.h"
#include "trainer/parallel/activations/wrap_activations.h"

namespace composer {
namespace {

// Thaws what was frozen since the optimizer was made (by the checkpoint, say), and returns it. The loop must know all
// parameters that may be trained.
std::vector<at::Tensor> ThawAll(const std::vector<at::Tensor>& trainable) {
  std::vector<at::Tensor> frozen;
  for (const at::Tensor& param : trainable) {
    if (param.requires_grad()) continue;
    frozen.push_back(param);
    param.set_requires_grad(true);
  }
  return frozen;
}

// A tokenizer's last tokens would be outside of the model's table.
absl::Status CheckVocabulary(const Model& model, const Tokenizer* tokenizer, bool logs) {
  const auto* known = dynamic_cast<const HuggingFaceModel*>(&model);
  if (known != nullptr && known->added_tokens > 0 && logs) {
    LOG(WARNING) << "model.allow_embedding_resizing: " << known->added_tokens << " tokens come behind the "
                 << known->vocabulary() - known->added_tokens << " that the model had; their rows begin as the mean of "
                 << "the others";
  }
  if (known == nullptr || tokenizer == nullptr || tokenizer->vocab_size() <= known->vocabulary())
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.vocab_size: the model has ", known->vocabulary(), " tokens, the tokenizer ", tokenizer->name(), " ",
      tokenizer->vocab_size(), "; model.allow_embedding_resizing: true adds their rows"));
}

}  // namespace

Trainer::Trainer(TrainerOptions options) : options_(std::move(options)) {
  if (options_.launch.id.empty()) options_.launch.id = RandomHex(8);
  if (options_.fsdp) options_.fsdp->keep_fp32 = options_.keep_in_fp32;
  if (options_.communicator == nullptr) own_communicator_ = std::make_unique<LocalCommunicator>();
  if (options_.supervision == nullptr) own_supervision_ = std::make_unique<Supervision>();
  communicator_ = options_.communicator != nullptr ? options_.communicator : own_communicator_.get();
  supervision_ = options_.supervision != nullptr ? options_.supervision : own_supervision_.get();
}

Trainer::~Trainer() {
  Close();
  if (state_.model != nullptr) state_.model->logger = nullptr;  // the model may live on
  if (auto* const model = dynamic_cast<AcrossRanks*>(state_.model.get())) model->data_ranks = nullptr;
  if (threads_before_ != 0) at::set_num_threads(threads_before_);
}

void Trainer::Close() {
  communicator_->set_tracer(nullptr);  // the communicator outlives the callbacks that trace
  if (engine_ != nullptr) engine_->Close();
  logger_.Close();
  // After a failure that restarts the ranks, they take over the folders; releasing them would only take time.
  if (checkpoints_ == nullptr || peers_are_gone_) return;
  for (RunCheckpoints* checkpoints : AllCheckpoints()) checkpoints->ReleaseFolder();
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(TrainerOptions options) {
  EnsureLogging();
  auto trainer = std::unique_ptr<Trainer>(new Trainer(std::move(options)));
  RETURN_IF_ERROR(Validate(trainer->options_, trainer->communicator_->world_size()));
  RETURN_IF_ERROR(CatchTorch([&] { return trainer->Build(); }));
  return trainer;
}

namespace {

void UseDeterministicAlgorithms() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

// Must come before anything else wraps the model's blocks.
absl::Status WrapBlocks(const TrainerOptions& options, int rank) {
  RETURN_IF_ERROR(KeepInFp32(*options.model, options.keep_in_fp32));
  ASSIGN_OR_RETURN(const std::string wrapped, WrapActivations(*options.model, options.activations, options.device));
  if (!wrapped.empty() && rank == 0) LOG(INFO) << wrapped;
  return absl::OkStatus();
}

// What a checkpoint fills; the data of evaluations is opened after it was read (BuildData).
absl::Status AddMetricsOfEvaluators(const TrainerOptions& options, State& state) {
  for (const EvaluatorOptions& wanted : options.evaluators) {
    Evaluator& evaluator = state.evaluators.emplace_back();
    evaluator.label = wanted.label;
    ASSIGN_OR_RETURN(evaluator.metrics, MetricsOf(wanted, *state.model));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Trainer::Build() {
  supervision_->OnPhase(RunPhase::kBuilding);
  if (options_.virtual_shards != 0) {
    threads_before_ = at::get_num_threads();
    at::set_num_threads(1);
  }
  if (options_.deterministic_mode) UseDeterministicAlgorithms();
  if (!options_.device.is_cpu()) {
    ASSIGN_OR_RETURN(attention_, AttentionHold::Take(options_.attention_backend, communicator_->rank() == 0));
  }
  BuildIdentity();
  BuildCheckpoints();
  RETURN_IF_ERROR(ChangeModel());
  ASSIGN_OR_RETURN(parallel_, ParallelModel::Make(options_, *communicator_));
  RETURN_IF_ERROR(WrapBlocks(options_, communicator_->rank()));
  BuildState();
  RETURN_IF_ERROR(CheckGenerate());
  for (auto& destination : options_.loggers) logger_.AddDestination(std::move(destination));
  engine_ = std::make_unique<Engine>(state_, logger_, std::move(options_.engine));
  known_ = state_.model->named_parameters();
  for (const auto& item : known_) {
    if (item.value().requires_grad()) trainable_.push_back(item.value());
  }
  RETURN_IF_ERROR(engine_->Run(Event::kInit));
  RETURN_IF_ERROR(FollowParameters());
  RETURN_IF_ERROR(engine_->Run(Event::kBeforeLoad));
  RETURN_IF_ERROR(FollowParameters());
  supervision_->OnPhase(RunPhase::kLoading);
  RETURN_IF_ERROR(AddMetricsOfEvaluators(options_, state_));
  RETURN_IF_ERROR(Start());
  RETURN_IF_ERROR(BuildData());
  RETURN_IF_ERROR(CheckSchedulers(
      state_.schedulers, {state_.max_duration, state_.clock.batches_per_epoch, state_.settings.scale_schedule_ratio}));
  RETURN_IF_ERROR(checkpoints_->CheckFolder(state_));
  RETURN_IF_ERROR(engine_->Run(Event::kAfterLoad));
  RETURN_IF_ERROR(FollowParameters());
  if (resumed_from_.empty()) parallel_->ShareFirstWeights(state_);
  supervision_->OnStarted(resumed_from_, state_.timestamp.batch, state_.timestamp.sample);
  const std::vector<at::Tensor> frozen = ThawAll(trainable_);
  loop_ = std::make_unique<TrainLoop>(RunParts{
      .state = state_,
      .engine = *engine_,
      .logger = logger_,
      .communicator = *communicator_,
      .train_data = train_data_,
      .generate = options_.generate,
      .checkpoints = *checkpoints_,
      .all_checkpoints = AllCheckpoints(),
      .supervision = *supervision_,
      .clock = options_.clock != nullptr ? *options_.clock : RealClock::Get(),
      .train_metrics_interval = options_.train_metrics_interval,
      .eval_first = options_.eval_first,
      .gradient_sync = parallel_->fsdp(),
      .ddp = options_.ddp,
      .elastic = {static_cast<int>(saved_data_.virtual_shards), parallel_->Place()},
      .graphs = options_.graphs,
      .wraps_activations = options_.activations.checkpoint.any() || options_.activations.cpu_offload,
      .mesh = parallel_->mesh(),
      .check_model = [this] { return CheckParameters(); },
  });
  for (const at::Tensor& param : frozen) param.set_requires_grad(false);
  return absl::OkStatus();
}

void Trainer::BuildIdentity() {
  state_.identity.run_name = options_.run_name;
  state_.identity.run_folder = options_.run_folder;
  state_.identity.load_path = options_.load.load_path;
  state_.tokenizer = options_.tokenizer;
  state_.identity.seed = options_.seed;
  state_.identity.rank = communicator_->rank();
  state_.identity.world_size = communicator_->world_size();
  state_.identity.device = options_.device;
}

void Trainer::BuildState() {
  Mesh& mesh = parallel_->mesh();
  state_.identity.data_rank = mesh.data().rank();
  state_.identity.data_ranks = mesh.data().world_size();
  state_.identity.tensor_rank = mesh.tensor().rank();
  state_.model = options_.model;
  ThrowIfError(CheckVocabulary(*state_.model, state_.tokenizer.get(), communicator_->rank() == 0));
  state_.model->logger = &logger_;
  if (options_.train_metrics_interval > 0) state_.train_metrics = state_.model->metrics(/*is_train=*/true);
  for (const auto& metric : state_.train_metrics) {
    if (metric->lists().empty()) continue;
    ThrowIfError(absl::InvalidArgumentError(
        absl::StrCat("train_metrics: ", metric->name(),
                     " needs the outputs of all samples, which a step does not gather: give it to "
                     "the evaluation, or set train_metrics_interval: 0")));
  }
  parallel_->Shard(state_);
  default_optimizer_ = options_.make_optimizer == nullptr;
  state_.optimizer = MakeOptimizer();
  const absl::string_view whole = state_.optimizer->needs_whole_parameters();
  if (state_.sharding != nullptr && !whole.empty()) {
    ThrowIfError(absl::InvalidArgumentError(
        absl::StrCat("optimizers: ", whole,
                     ", and sharding leaves a rank pieces of them; use fsdp's sharding_strategy NO_SHARD and "
                     "a tensor_parallel_degree of 1, or another optimizer")));
  }
  parallel_->LogPlan(state_);
  state_.schedulers = std::move(options_.schedulers);
  if (options_.step_schedulers_every_batch)
    ThrowIfError(StepEveryBatch(state_.schedulers, *options_.step_schedulers_every_batch));
  state_.max_duration = ScaledMaxDuration(options_);
  state_.clock.iteration_length = options_.iteration_length;
  if (options_.composer_compat) state_.clock.lagging.emplace();
  state_.settings.nan = NanPolicy(options_.on_nan.value_or(options_.composer_compat ? OnNan::kContinue : OnNan::kStop));
  state_.settings.precision = options_.precision;
  if (options_.precision == Precision::kAmpFp16) state_.settings.scaler.emplace(GradScaler::Options{});
  state_.settings.device_train_microbatch_size = std::max<int64_t>(0, options_.device_train_microbatch_size);
  state_.settings.accumulate_train_batch_on_tokens = options_.accumulate_train_batch_on_tokens;
  state_.settings.scale_schedule_ratio = options_.scale_schedule_ratio;
  if (options_.device_train_microbatch_size == kAutoMicrobatch) {
    // The real size is set once the batch size is known.
    state_.settings.auto_microbatch.emplace(std::numeric_limits<int64_t>::max() / 4);
  }
}

absl::Status Trainer::CheckSchedulers(const SchedulerList& schedulers, const ScheduleContext& context) const {
  // Without these Fit will be given them, or report that they are missing.
  if (context.max_duration.count() == 0 || context.batches_per_epoch == 0) return absl::OkStatus();
  return Annotate(composer::CheckSchedulers(schedulers, context, *state_.optimizer), "schedulers");
}

// Returns a store with its own keys for each user that coordinates through it.
c10::intrusive_ptr<c10d::Store> Trainer::StoreFor(absl::string_view user) {
  if (options_.store == nullptr) return nullptr;
  return c10::make_intrusive<c10d::PrefixStore>(absl::StrCat(user, num_stores_++), options_.store);
}

std::vector<RunCheckpoints*> Trainer::AllCheckpoints() const {
  std::vector<RunCheckpoints*> all = {checkpoints_.get()};
  for (CheckpointSaver* saver : savers_) all.push_back(&saver->checkpoints());
  return all;
}

absl::Status Trainer::Explained(absl::Status status) {
  if (!IsOutOfMemory(status)) return status;
  ReportOutOfMemory(state_, logger_, status.message());
  return OutOfMemoryStatus(OutOfMemoryAdvice(OutOfMemoryFactsOf(state_, status.message(), options_.visible_devices)));
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
    // Only one saver at a time may use a folder.
    for (RunCheckpoints* checkpoints : AllCheckpoints()) checkpoints->Finish();
    RunCheckpoints once(options, *communicator_, StoreFor("once"), *supervision_, /*thread=*/nullptr);
    once.SetLaunch(options_.launch);
    RETURN_IF_ERROR(once.Open(state_));
    once.SetDataSettings(saved_data_);
    once.SaveNow(state_);
    location = once.last_location();
    return absl::OkStatus();
  }));
  return location;
}

}  // namespace composer
