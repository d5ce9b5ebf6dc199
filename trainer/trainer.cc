// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer.h"

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/parallel/local_communicator.h"
#include "trainer/torch_status.h"

namespace composer {

Trainer::Trainer(TrainerOptions options) : options_(std::move(options)) {
  if (options_.communicator == nullptr) own_communicator_ = std::make_unique<LocalCommunicator>();
  if (options_.supervision == nullptr) own_supervision_ = std::make_unique<Supervision>();
  communicator_ = options_.communicator != nullptr ? options_.communicator : own_communicator_.get();
  supervision_ = options_.supervision != nullptr ? options_.supervision : own_supervision_.get();
}

Trainer::~Trainer() {
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
  state_.run_name = options_.run_name;
  state_.run_folder = options_.run_folder;
  state_.seed = options_.seed;
  state_.rank = communicator_->rank();
  state_.world_size = communicator_->world_size();
  state_.model = options_.model;
  state_.optimizer = options_.make_optimizer(*state_.model);
  state_.schedulers = std::move(options_.schedulers);
  state_.algorithms = std::move(options_.algorithms);
  state_.callbacks = std::move(options_.callbacks);
  state_.max_duration = ScaledMaxDuration(options_);
  state_.precision = options_.precision;
  state_.device_train_microbatch_size = options_.device_train_microbatch_size;
  state_.scale_schedule_ratio = options_.scale_schedule_ratio;
  if (options_.train_metrics_interval > 0) state_.train_metrics = state_.model->metrics(/*is_train=*/true);
  for (auto& destination : options_.loggers) logger_.AddDestination(std::move(destination));
  engine_ = std::make_unique<Engine>(state_, logger_);
  checkpoints_ = std::make_unique<RunCheckpoints>(options_.save, *communicator_, options_.store, *supervision_);
  RETURN_IF_ERROR(engine_->Run(Event::kInit));
  RETURN_IF_ERROR(engine_->Run(Event::kBeforeLoad));
  RETURN_IF_ERROR(BuildData());
  for (const auto& scheduler : state_.schedulers) {
    const ScheduleContext context{state_.max_duration, state_.batches_per_epoch, state_.scale_schedule_ratio};
    RETURN_IF_ERROR(Annotate(scheduler->Check(context), "schedulers"));
  }
  RETURN_IF_ERROR(engine_->Run(Event::kAfterLoad));
  if (resumed_from_.empty()) ShareInitialWeights();
  supervision_->OnStarted(resumed_from_, state_.timestamp.batch, state_.timestamp.sample);
  Clock* clock = options_.clock != nullptr ? options_.clock : &RealClock::Get();
  loop_ = std::make_unique<TrainLoop>(RunParts{state_, *engine_, logger_, *communicator_, *train_loader_, evaluators_,
                                               *checkpoints_, *supervision_, *clock, options_.train_metrics_interval});
  return absl::OkStatus();
}

// The global batch size is settled at the first launch and stays for the life of the run, whatever the number of ranks.
absl::Status Trainer::BuildData() {
  const TrainDataOptions& train = options_.train;
  SavedDataSettings saved;
  ASSIGN_OR_RETURN(resumed_from_, checkpoints_->Resume(state_, saved));
  const int64_t configured = train.global_train_batch_size;  // 0: not given
  if (!resumed_from_.empty() && configured > 0 && configured != saved.global_train_batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("global_train_batch_size: ", configured, ", but checkpoint ", resumed_from_, " was trained with ",
                     saved.global_train_batch_size,
                     "; keep that value, or start a new run (another run_name, or autoresume: false)"));
  }
  if (!resumed_from_.empty() && saved.dataset_size != train.dataset->size()) {
    return absl::InvalidArgumentError(absl::StrCat("train_dataloader: the dataset has ", train.dataset->size(),
                                                   " samples, but checkpoint ", resumed_from_, " was trained on ",
                                                   saved.dataset_size));
  }
  int64_t global_batch = resumed_from_.empty() ? configured : saved.global_train_batch_size;
  if (global_batch == 0) global_batch = train.device_train_batch_size * state_.world_size;
  checkpoints_->SetDataSettings({global_batch, train.dataset->size()});
  DataLoader::Options loader;
  loader.label = train.label;
  loader.global_batch_size = global_batch;
  loader.shuffle = train.shuffle;
  loader.drop_last = train.drop_last;
  loader.seed = state_.seed;
  loader.rank = state_.rank;
  loader.world_size = state_.world_size;
  loader.subset_num_batches = train.train_subset_num_batches;
  train_loader_ = std::make_unique<DataLoader>(train.dataset, loader);
  state_.batches_per_epoch = train_loader_->batches_per_epoch();
  for (const EvaluatorOptions& options : options_.evaluators) {
    DataLoader::Options eval = loader;
    eval.label = options.label;
    eval.global_batch_size = options.batch_size * state_.world_size;
    eval.shuffle = eval.drop_last = false;
    eval.subset_num_batches = options.subset_num_batches;
    evaluators_.push_back({options.label, std::make_unique<DataLoader>(options.dataset, eval),
                           state_.model->metrics(/*is_train=*/false), options.eval_interval});
  }
  return absl::OkStatus();
}

void Trainer::ShareInitialWeights() {
  if (state_.world_size == 1) return;
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& param : state_.model->parameters()) communicator_->Broadcast(param.detach(), 0);
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

absl::Status Trainer::Fit() {
  return CatchTorch([this] { return loop_->Run(); });
}

absl::Status Trainer::Eval() {
  return CatchTorch([this]() -> absl::Status {
    RETURN_IF_ERROR(engine_->Run(Event::kEvalStandaloneStart));
    for (Evaluator& evaluator : evaluators_) RunEvaluator(evaluator, state_, *engine_, *communicator_, logger_);
    return engine_->Run(Event::kEvalStandaloneEnd);
  });
}

}  // namespace composer
