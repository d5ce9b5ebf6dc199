// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/train_loop.h"

#include <torch/types.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/optim/apply_schedulers.h"
#include "trainer/optim/observe_metrics.h"

namespace composer {

TrainLoop::TrainLoop(const RunParts& parts)
    : parts_(parts),
      state_(parts.state),
      train_batch_(parts.state, parts.engine, parts.data_ranks(), parts.gradient_sync, parts.ddp, parts.elastic,
                   parts.tensor_ranks()) {
  loss_id_ = parts_.logger.Intern("loss/train/total");
  data_wait_id_ = parts_.logger.Intern("throughput/data_wait");
  for (const auto& metric : state_.train_metrics) {
    metric_ids_.push_back(parts_.logger.Intern(absl::StrCat("metrics/train/", metric->name())));
  }
}

absl::Status TrainLoop::Run() {
  schedule_ = {state_.max_duration, state_.clock.batches_per_epoch, state_.settings.scale_schedule_ratio};
  drain_ = stop_ = save_failed_ = save_asked_ = state_.requests.stop = false;
  state_.model->train();
  Fire(Event::kFitStart);
  RETURN_IF_ERROR(parts_.check_model());
  if (parts_.graphs != nullptr) train_batch_.BeginGraphs(*parts_.graphs, parts_.wraps_activations);
  step_started_ = parts_.clock.Now();
  data_wait_.Restart();
  parts_.supervision.OnPhase(RunPhase::kTraining);
  if (parts_.eval_first && state_.timestamp.batch == 0) Evaluate(Event::kFitStart);
  while (!Finished()) {
    if (AtIterationStart()) Fire(Event::kIterationStart);
    if (state_.timestamp.batch_in_epoch == 0) Fire(Event::kEpochStart);
    RETURN_IF_ERROR(parts_.check_model());
    RETURN_IF_ERROR(RunEpoch());
    if (epoch_ended_ || AtEndOfEpoch()) FinishEpoch();
  }
  RETURN_IF_ERROR(parts_.check_model());
  Generate(Event::kFitEnd);
  Fire(Event::kFitEnd);
  Evaluate(Event::kFitEnd);
  parts_.logger.Flush(state_.timestamp);
  parts_.checkpoints.SaveAtEnd(state_);
  for (const auto& group : state_.optimizer->groups()) {
    for (const at::Tensor& param : group.params) param.mutable_grad().reset();
  }
  parts_.supervision.OnPhase(RunPhase::kDone);
  return absl::OkStatus();
}

bool TrainLoop::Finished() const {
  if (parts_.communicator.world_size() == 1 && state_.requests.stop) return true;
  return stop_ || state_.timestamp.Get(state_.max_duration.unit()) >= state_.max_duration.count();
}

bool TrainLoop::OutOfBatches() const {
  const Timestamp& now = state_.timestamp;
  return Finished() || (state_.max_duration.unit() == TimeUnit::kEpoch && AtEndOfEpoch() &&
                        now.epoch + 1 >= state_.max_duration.count());
}

absl::Status TrainLoop::RunEpoch() {
  for (epoch_ended_ = false;;) {
    const bool inside_epoch = state_.timestamp.batch_in_epoch > 0 && !AtEndOfEpoch();
    if (inside_epoch && state_.clock.iteration_length.unit() == TimeUnit::kToken && AtIterationStart())
      Fire(Event::kIterationStart);
    Fire(Event::kBeforeDataloader);
    epoch_ended_ = AtEndOfEpoch() || !LoadBatch();
    if (epoch_ended_) return absl::OkStatus();
    Fire(Event::kAfterDataloader);
    Fire(Event::kBatchStart);
    Step();
    Fire(Event::kBatchEnd);
    parts_.logger.Flush(state_.timestamp);
    parts_.supervision.OnStep(state_.timestamp.batch, state_.timestamp.sample, state_.step.loss, data_wait_.share());
    FollowSaves();
    Evaluate(Event::kBatchEnd);
    CheckpointAt(Event::kBatchCheckpoint);
    SaveIfAsked();
    MaybeFinishIteration(TimeUnit::kToken);
    if (drain_ && !OutOfBatches()) {
      parts_.checkpoints.SaveNow(state_);
      for (RunCheckpoints* checkpoints : parts_.all_checkpoints) checkpoints->Finish();
      return absl::CancelledError(
          absl::StrCat("drained after batch ", state_.timestamp.batch, ": the checkpoint is saved"));
    }
    if (Finished()) return absl::OkStatus();
  }
}

bool TrainLoop::LoadBatch() {
  const TraceSpan span(state_.tracer, kDataloaderSpan);
  const Timestamp& now = state_.timestamp;
  const absl::Time began = parts_.clock.Now();
  LoadedBatch loaded = parts_.train_data.batches->Load(now.epoch, now.sample_in_epoch);
  state_.global_samples = loaded.global_samples;
  if (loaded.global_samples == 0) {
    if (now.sample_in_epoch > 0) return false;
    throw StatusError(absl::InvalidArgumentError(
        absl::StrCat(parts_.train_data.loader->label(), "_dataloader: the data gives no batch in epoch ", now.epoch)));
  }
  state_.batch = parts_.train_data.loader->spec().Prepare(std::move(loaded.batch), state_.identity.device);
  state_.data_place = std::move(loaded.place);
  waited_ = parts_.clock.Now() - began;
  loaded_samples_ = state_.batch.num_samples;
  loaded_tokens_ = state_.batch.num_tokens;
  return true;
}

bool TrainLoop::AtIterationStart() const {
  const Timestamp& now = state_.timestamp;
  if (state_.clock.iteration_length.unit() == TimeUnit::kToken) return now.token_in_iteration == 0;
  return now.epoch_in_iteration == 0 && now.batch_in_epoch == 0;
}

void TrainLoop::MaybeFinishIteration(TimeUnit unit) {
  const Time& length = state_.clock.iteration_length;
  if (length.unit() != unit || length.count() <= 0) return;
  const Timestamp& now = state_.timestamp;
  if ((unit == TimeUnit::kToken ? now.token_in_iteration : now.epoch_in_iteration) < length.count()) return;
  state_.clock.previous_timestamp = state_.timestamp;
  state_.timestamp.ToNextIteration();
  // Composer's loop restarts its epoch here and would never end it; ours continues in the current epoch.
  const Timestamp& before = state_.clock.previous_timestamp;
  state_.timestamp.batch_in_epoch = before.batch_in_epoch;
  state_.timestamp.sample_in_epoch = before.sample_in_epoch;
  state_.timestamp.token_in_epoch = before.token_in_epoch;
  state_.timestamp.epoch_wct = before.epoch_wct;
  state_.timestamp.batch_wct = before.batch_wct;
  Fire(Event::kIterationEnd);
  Evaluate(Event::kIterationEnd);
  CheckpointAt(Event::kIterationCheckpoint);
}

void TrainLoop::FinishEpoch() {
  if (state_.max_duration.unit() == TimeUnit::kToken && state_.timestamp.token == 0) {
    throw StatusError(absl::InvalidArgumentError(absl::StrCat("max_duration: ", state_.max_duration.ToString(),
                                                              " can't be reached, the training data has no tokens")));
  }
  state_.clock.previous_timestamp = state_.timestamp;
  state_.timestamp.ToNextEpoch();
  state_.data_place.clear();
  epoch_ended_ = false;
  Fire(Event::kEpochEnd);
  Evaluate(Event::kEpochEnd);
  CheckpointAt(Event::kEpochCheckpoint);
  MaybeFinishIteration(TimeUnit::kEpoch);
  AgreeOnStop();
}

void TrainLoop::AgreeOnStop() {
  if (parts_.communicator.world_size() == 1) return;
  double votes = state_.requests.stop ? 1 : 0;
  parts_.communicator.AllReduceSum(absl::MakeSpan(&votes, 1));
  stop_ = stop_ || votes > 0;
}

void TrainLoop::Step() {
  ApplySchedulers(state_.schedulers, state_.timestamp, state_.clock.lagging, schedule_, *state_.optimizer);
  TrainBatch::Request request;
  request.global_samples = state_.global_samples;
  const int64_t interval = parts_.train_metrics_interval;
  request.measure = interval > 0 && (state_.timestamp.batch + 1) % interval == 0;
  request.message = OwnMessage();
  request.message.samples = loaded_samples_;
  request.message.tokens = loaded_tokens_;
  const StepMessage agreed = RunStep(request);
  drain_ = agreed.drain_votes > 0;
  stop_ = stop_ || agreed.stop_votes > 0;
  save_failed_ = agreed.save_failures > 0;
  save_asked_ = agreed.save_votes > 0;
  state_.requests.profile = state_.requests.profile || agreed.profile_votes > 0;
  LogStep(request.measure);
  state_.clock.previous_timestamp = state_.timestamp;
  if (state_.clock.lagging) state_.clock.lagging = state_.timestamp;
  state_.timestamp.ToNextBatch(agreed.samples, agreed.tokens, absl::Seconds(agreed.seconds));
}

StepMessage TrainLoop::RunStep(TrainBatch::Request request) {
  for (;;) {
    const StepMessage agreed = train_batch_.Run(request);
    if (!state_.settings.auto_microbatch) return agreed;
    MicrobatchPolicy& policy = *state_.settings.auto_microbatch;
    const int64_t ranks = state_.identity.data_ranks, samples = (request.global_samples + ranks - 1) / ranks;
    if (agreed.out_of_memory == 0) {
      policy.OnFit(samples);
    } else {
      ThrowIfError(policy.OnOutOfMemory(samples));
    }
    if (policy.size() != state_.settings.device_train_microbatch_size && state_.identity.rank == 0) {
      LOG(INFO) << "device_train_microbatch_size: " << state_.settings.device_train_microbatch_size << " -> "
                << policy.size() << (agreed.out_of_memory > 0 ? ", out of memory" : ", trying to grow") << " at batch "
                << state_.timestamp.batch;
    }
    state_.settings.device_train_microbatch_size = policy.size();
    if (agreed.out_of_memory == 0) return agreed;
  }
}

StepMessage TrainLoop::OwnMessage() {
  StepMessage message;
  message.stop_votes = state_.requests.stop ? 1 : 0;
  message.drain_votes = parts_.supervision.DrainRequested() ? 1 : 0;
  message.save_votes = state_.requests.save || parts_.supervision.TakeSaveRequest() ? 1 : 0;
  state_.requests.save = false;
  message.profile_votes = parts_.supervision.TakeProfileRequest() ? 1 : 0;
  for (const RunCheckpoints* checkpoints : parts_.all_checkpoints) message.save_failures |= checkpoints->HasFailed();
  const absl::Time now = parts_.clock.Now();
  data_wait_.Add(waited_, now - step_started_);
  if (state_.identity.rank == 0) message.seconds = static_cast<float>(absl::ToDoubleSeconds(now - step_started_));
  step_started_ = now;
  return message;
}

void TrainLoop::LogStep(bool measured) {
  parts_.logger.Log(loss_id_, state_.step.loss);
  if (!std::isnan(data_wait_.share())) parts_.logger.Log(data_wait_id_, data_wait_.share());
  const std::vector<std::string>& names = train_batch_.loss_part_names();
  for (size_t i = part_ids_.size(); i < names.size(); ++i)
    part_ids_.push_back(parts_.logger.Intern(absl::StrCat("loss/train/", names[i])));
  for (size_t i = 0; i < part_ids_.size(); ++i) parts_.logger.Log(part_ids_[i], train_batch_.loss_parts()[i]);
  if (const int64_t skipped = state_.settings.nan.skipped_steps(); skipped > 0)
    parts_.logger.Log("nan/skipped_steps", static_cast<double>(skipped));
  if (parts_.graphs != nullptr) parts_.logger.Log("trainer/graph_replay", train_batch_.replayed() ? 1 : 0);
  if (state_.settings.auto_microbatch)
    parts_.logger.Log("trainer/device_train_microbatch_size",
                      static_cast<double>(state_.settings.device_train_microbatch_size));
  if (!measured) return;
  for (size_t i = 0; i < metric_ids_.size(); ++i) parts_.logger.Log(metric_ids_[i], state_.train_metrics[i]->Compute());
}

void TrainLoop::Evaluate(Event event) {
  absl::Time began;
  bool any = false;
  for (Evaluator& evaluator : state_.evaluators) {
    if (!EvaluatorIsDue(evaluator, event, state_)) continue;
    if (!any) {
      began = parts_.clock.Now();
      parts_.supervision.OnPhase(RunPhase::kEvaluating);
      Fire(Event::kEvalBeforeAll);
      any = true;
    }
    const TraceSpan span(state_.tracer, kEvaluationSpan);
    RunEvaluator(evaluator, state_, parts_.engine, parts_.data_ranks(), parts_.logger);
    // A metric of before the first step is not a step of a schedule that waits for metrics.
    if (event != Event::kFitStart) ObserveMetrics(state_.schedulers, Event::kEvalEnd, evaluator.label, parts_.logger);
  }
  ObserveMetrics(state_.schedulers, event, "", parts_.logger);
  if (!any) return;
  Fire(Event::kEvalAfterAll);
  parts_.supervision.OnPhase(RunPhase::kTraining);
  step_started_ += parts_.clock.Now() - began;  // evaluation is not training time
}

void TrainLoop::Generate(Event event) {
  for (GenerateCallback& callback : parts_.generate) {
    if (!GenerateIsDue(callback, event, state_)) continue;
    const absl::Time began = parts_.clock.Now();
    parts_.supervision.OnPhase(RunPhase::kEvaluating);
    const TraceSpan span(state_.tracer, kEvaluationSpan);
    RunGenerate(callback, state_, parts_.data_ranks(), parts_.logger);
    parts_.supervision.OnPhase(RunPhase::kTraining);
    step_started_ += parts_.clock.Now() - began;  // neither is this
  }
}

void TrainLoop::Fire(Event event) { ThrowIfError(parts_.engine.Run(event)); }

void TrainLoop::CheckpointAt(Event event) {
  Fire(event);
  Generate(event);
  if (!parts_.checkpoints.IsDue(event, state_)) return;
  const TraceSpan span(state_.tracer, kCheckpointSpan);
  parts_.checkpoints.Save(state_);
}

void TrainLoop::SaveIfAsked() {
  // A single rank need not agree with others and acts on a request of this very batch.
  const bool own = parts_.communicator.world_size() == 1 && state_.requests.save;
  if (!save_asked_ && !own) return;
  save_asked_ = state_.requests.save = false;
  const TraceSpan span(state_.tracer, kCheckpointSpan);
  parts_.checkpoints.Finish();  // this save must not be skipped
  parts_.checkpoints.Save(state_);
}

void TrainLoop::FollowSaves() {
  for (RunCheckpoints* checkpoints : parts_.all_checkpoints) {
    save_failed_ ? checkpoints->Finish() : checkpoints->Poll();
  }
}

}  // namespace composer
