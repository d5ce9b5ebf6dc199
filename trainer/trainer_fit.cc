// This part of Trainer trains: what a call of Fit changes, and the run itself.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/optim/apply_schedulers.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

// Returns how long a run that failed by itself waits for the save in flight, so that the steps up to it are not lost.
// If another rank or the store is gone, the save cannot end.
absl::Duration PatienceWithSave(const absl::Status& failure) {
  return absl::IsUnavailable(failure) ? absl::ZeroDuration() : absl::Seconds(20);
}

}  // namespace

absl::StatusOr<Time> Trainer::MaxDurationOf(const FitOptions& options) const {
  const Timestamp now = options.reset_time ? Timestamp() : state_.timestamp;
  const bool scaled_anew = options.reset_time && options.scale_schedule_ratio;
  Time max_duration = scaled_anew          ? options_.max_duration
                      : options.reset_time ? ScaledMaxDuration(options_)
                                           : state_.max_duration;
  if (options.duration) {
    RETURN_IF_ERROR(ValidateDuration("duration", *options.duration, options_));
    const TimeUnit unit = options.duration->unit();
    max_duration = Time(now.Get(unit) + options.duration->count(), unit);
  }
  if (max_duration.count() == 0)
    return absl::InvalidArgumentError("max_duration: required, of the trainer or as Fit's duration");
  if (options.scale_schedule_ratio) {
    RETURN_IF_ERROR(ValidateScaleScheduleRatio(*options.scale_schedule_ratio, max_duration));
    max_duration = ScaledTime(max_duration, *options.scale_schedule_ratio);
  }
  const bool complete = now.Get(max_duration.unit()) >= max_duration.count();
  if (complete && was_fitted_) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_duration: ", max_duration.ToString(),
                     " is reached already; give Fit a duration to train longer, or reset_time to begin anew"));
  }
  return max_duration;
}

absl::Status Trainer::CheckMicrobatchOf(const FitOptions& options) const {
  if (options.device_train_microbatch_size) {
    if (options_.virtual_shards != 0) {
      return absl::InvalidArgumentError(
          "device_train_microbatch_size: with determinism: elastic it is part of the result and settled when the "
          "trainer "
          "is made");
    }
    const int64_t size = *options.device_train_microbatch_size;
    if (size < 0 && size != kAutoMicrobatch)
      return absl::InvalidArgumentError(
          absl::StrCat("device_train_microbatch_size: ", size, " is not a number of samples"));
    if (size == kAutoMicrobatch && options_.tensor_parallel_degree > 1)
      return absl::InvalidArgumentError("device_train_microbatch_size: auto does not go with tensor_parallel_degree");
  }
  return absl::OkStatus();
}

// Composer refuses these, too.
absl::Status Trainer::CheckScheduleOptions(const FitOptions& options) const {
  if (!options.schedulers && options.scale_schedule_ratio)
    return absl::InvalidArgumentError("scale_schedule_ratio: Fit takes it with schedulers only, which it scales");
  if (!options.schedulers && options.step_schedulers_every_batch)
    return absl::InvalidArgumentError("step_schedulers_every_batch: Fit takes it with schedulers only");
  return options.scale_schedule_ratio ? ValidateScaleScheduleRatio(*options.scale_schedule_ratio, Time())
                                      : absl::OkStatus();
}

TrainDataOptions Trainer::TrainDataOf(const FitOptions& options) const {
  TrainDataOptions train = options.train.value_or(options_.train);
  const bool has_batch = train.global_train_batch_size != 0 || train.device_train_batch_size != 0;
  if (!options.train || !has_batch) train.global_train_batch_size = saved_data_.global_train_batch_size;
  train.train_subset_num_batches = options.train_subset_num_batches.value_or(train.train_subset_num_batches);
  return train;
}

std::vector<EvaluatorOptions> Trainer::EvaluatorsOf(const FitOptions& options) const {
  std::vector<EvaluatorOptions> evaluators = options.evaluators.value_or(options_.evaluators);
  for (EvaluatorOptions& evaluator : evaluators) {
    evaluator.eval_interval = options.eval_interval.value_or(evaluator.eval_interval);
    evaluator.subset_num_batches = options.eval_subset_num_batches.value_or(evaluator.subset_num_batches);
  }
  return evaluators;
}

void Trainer::UsePrecision(Precision precision) {
  state_.settings.precision = precision;
  if (precision != Precision::kAmpFp16) state_.settings.scaler.reset();
  if (precision == Precision::kAmpFp16 && !state_.settings.scaler)
    state_.settings.scaler.emplace(GradScaler::Options{});
}

void Trainer::UseMicrobatch(int64_t size) {
  StepSettings& settings = state_.settings;
  settings.auto_microbatch.reset();
  if (size == kAutoMicrobatch) {
    const int64_t ranks = state_.identity.data_ranks;
    settings.auto_microbatch.emplace((saved_data_.global_train_batch_size + ranks - 1) / ranks);
    size = settings.auto_microbatch->size();
  }
  settings.device_train_microbatch_size = size;
}

absl::Status Trainer::ApplyFitOptions(FitOptions& options) {
  if (options.precision == Precision::kAmpFp8 && options_.precision != Precision::kAmpFp8)
    return absl::InvalidArgumentError(
        "precision: amp_fp8 changes the model's layers when it is made: give it to the trainer, whose Fit may then go "
        "on in another one");
  if (options.precision)
    RETURN_IF_ERROR(
        AttentionKernels(options_.attention_backend, {!options_.device.is_cpu(), *options.precision != Precision::kFp32,
                                                      options_.deterministic_mode})
            .status());
  RETURN_IF_ERROR(CheckScheduleOptions(options));
  ASSIGN_OR_RETURN(const Time max_duration, MaxDurationOf(options));
  RETURN_IF_ERROR(CheckMicrobatchOf(options));
  std::optional<PreparedData> data;
  if (options.train || (options.train_subset_num_batches && train_data_.loader != nullptr)) {
    const TrainDataOptions train = TrainDataOf(options);
    ASSIGN_OR_RETURN(data, PrepareData(train));
    RETURN_IF_ERROR(ValidateLength(train, max_duration));
  } else if (train_data_.loader == nullptr) {
    return absl::InvalidArgumentError("train_dataloader: required, of the trainer or as Fit's train");
  }
  const bool other_evaluators = options.evaluators || options.eval_interval || options.eval_subset_num_batches;
  const std::vector<EvaluatorOptions> wanted = EvaluatorsOf(options);
  std::vector<Evaluator> evaluators;
  if (other_evaluators) {
    ASSIGN_OR_RETURN(evaluators, MakeEvaluators(wanted));
  }
  if (options.step_schedulers_every_batch)
    RETURN_IF_ERROR(StepEveryBatch(*options.schedulers, *options.step_schedulers_every_batch));
  const double ratio =
      options.schedulers ? options.scale_schedule_ratio.value_or(1) : state_.settings.scale_schedule_ratio;
  const int64_t batches = data ? data->data.loader->batches_per_epoch() : state_.clock.batches_per_epoch;
  RETURN_IF_ERROR(
      CheckSchedulers(options.schedulers ? *options.schedulers : state_.schedulers, {max_duration, batches, ratio}));
  // Nothing fails from here on.
  state_.max_duration = max_duration;
  state_.settings.scale_schedule_ratio = ratio;
  if (options.schedulers) state_.schedulers = *std::move(options.schedulers);
  if (options.reset_time) state_.timestamp = state_.clock.previous_timestamp = Timestamp();
  if (options.reset_time && state_.clock.lagging) state_.clock.lagging = Timestamp();
  if (data) UseData(*std::move(data));
  if (other_evaluators) {
    options_.evaluators = wanted;
    state_.evaluators = std::move(evaluators);
  }
  if (options.device_train_microbatch_size) UseMicrobatch(*options.device_train_microbatch_size);
  if (options.precision) UsePrecision(*options.precision);
  return absl::OkStatus();
}

// Only rank 0's has_ended counts: others may not see the run's folder.
absl::StatusOr<bool> Trainer::NothingToDo() {
  const int64_t now = state_.timestamp.Get(state_.max_duration.unit());
  if (was_fitted_ || resumed_from_.empty() || now < state_.max_duration.count()) return false;
  double ended = state_.identity.rank == 0 && options_.has_ended ? 1 : 0;
  if (state_.identity.world_size > 1)
    RETURN_IF_ERROR(CatchTorch([&] { communicator_->AllReduceSum(absl::MakeSpan(&ended, 1)); }));
  if (ended == 0) return false;
  if (state_.identity.rank == 0) {
    absl::FPrintF(stderr, "nothing to do: already at %s (max_duration: %s)\n",
                  Time(now, state_.max_duration.unit()).ToString(), state_.max_duration.ToString());
  }
  return true;
}

absl::Status Trainer::Fit(FitOptions options) {
  const RunStart start{state_.timestamp, own_history_};
  RETURN_IF_ERROR(CatchTorch([&] { return ApplyFitOptions(options); }));
  ASSIGN_OR_RETURN(const bool nothing_to_do, NothingToDo());
  const bool again = std::exchange(was_fitted_, true);
  if (nothing_to_do) {
    supervision_->OnPhase(RunPhase::kDone);
    return absl::OkStatus();
  }
  if (!again && default_optimizer_ && state_.identity.rank == 0)
    LOG(WARNING) << "optimizers: none is given, so the run trains with DecoupledSGDW(0.1)";
  if (!again) logger_.Start(start);
  absl::Status status = CatchTorch([this] { return loop_->Run(); });
  if (!status.ok()) {
    for (RunCheckpoints* checkpoints : AllCheckpoints()) checkpoints->FinishQuietly(PatienceWithSave(status));
    peers_are_gone_ = absl::IsUnavailable(status);
  }
  return Explained(std::move(status));
}

}  // namespace composer
