// SPDX-License-Identifier: Apache-2.0
#include "trainer/eval_loop.h"

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/autocast.h"
#include "trainer/torch_status.h"

namespace composer {

bool EvaluatorIsDue(const Evaluator& evaluator, Event event, const State& state) {
  const Time interval = CountedInterval(evaluator.eval_interval, state.max_duration, state.batches_per_epoch);
  if (interval.value() <= 0 || evaluator.last_batch == state.timestamp.batch) return false;
  if (event == Event::kFitEnd) return true;
  const bool by_epoch = interval.unit() == TimeUnit::kEpoch;
  if (event != (by_epoch ? Event::kEpochEnd : Event::kBatchEnd)) return false;
  return IntervalCrossed(interval, state.previous_timestamp, state.timestamp);
}

namespace {

void RunEvalBatch(State& state, Engine& engine, const MetricList& metrics) {
  ThrowIfError(engine.Run(Event::kEvalBatchStart));
  ThrowIfError(engine.Run(Event::kEvalBeforeForward));
  if (state.batch.num_samples > 0) {
    const AutocastScope autocast(state.precision, state.batch.inputs.device().type());
    state.outputs = state.model->eval_forward(state.batch);
  }
  ThrowIfError(engine.Run(Event::kEvalAfterForward));
  if (state.batch.num_samples > 0) {
    for (const auto& metric : metrics) metric->Update(state.outputs, state.batch);
  }
  ThrowIfError(engine.Run(Event::kEvalBatchEnd));
}

// All sums of all metrics in one collective.
void SumOverRanks(const MetricList& metrics, Communicator& communicator) {
  if (communicator.world_size() == 1) return;
  std::vector<double> sums;
  for (const auto& metric : metrics) {
    const auto own = metric->sums();
    sums.insert(sums.end(), own.begin(), own.end());
  }
  if (sums.empty()) return;
  communicator.AllReduceSum(torch::from_blob(sums.data(), {static_cast<int64_t>(sums.size())}, torch::kDouble));
  size_t next = 0;
  for (const auto& metric : metrics) {
    for (double& sum : metric->sums()) sum = sums[next++];
  }
}

}  // namespace

void RunEvaluator(Evaluator& evaluator, State& state, Engine& engine, Communicator& communicator, Logger& logger) {
  const torch::NoGradGuard no_grad;
  BroadcastBuffers(*state.model, communicator);
  state.model->eval();
  state.eval_label = evaluator.label;
  state.eval_batches = evaluator.loader->batches_per_epoch();
  state.eval_timestamp = Timestamp();
  const Batch train_batch = state.batch;
  for (const auto& metric : evaluator.metrics) metric->Reset();
  ThrowIfError(engine.Run(Event::kEvalStart));
  for (int64_t n = 0; n < evaluator.loader->batches_per_epoch(); ++n) {
    state.batch = evaluator.loader->Load(/*epoch=*/0, n);
    const int64_t samples = evaluator.loader->global_samples(n);
    RunEvalBatch(state, engine, evaluator.metrics);
    state.eval_timestamp.ToNextBatch(samples, state.batch.num_tokens, absl::ZeroDuration());
  }
  SumOverRanks(evaluator.metrics, communicator);
  for (const auto& metric : evaluator.metrics) {
    logger.Log(absl::StrCat("metrics/", evaluator.label, "/", metric->name()), metric->Compute());
  }
  evaluator.last_batch = state.timestamp.batch;
  ThrowIfError(engine.Run(Event::kEvalEnd));
  logger.Flush(state.timestamp);
  state.batch = train_batch;
  state.outputs = at::Tensor();
  state.model->train();
}

void BroadcastBuffers(const Model& model, Communicator& communicator) {
  if (communicator.world_size() == 1) return;
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& buffer : model.buffers()) communicator.Broadcast(buffer, 0);
}

}  // namespace composer
