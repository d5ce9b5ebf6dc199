// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/eval_loop.h"

#include <torch/types.h>

#include <algorithm>
#include <regex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/collectives/broadcast_buffers.h"
#include "trainer/core/error_place.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/answer_prompts.h"
#include "trainer/loop/autocast.h"
#include "trainer/metrics/confusion_matrix.h"
#include "trainer/options/trainer_options.h"

namespace composer {

bool EvaluatorIsDue(const Evaluator& evaluator, Event event, const State& state) {
  if (event == Event::kFitStart) return true;
  if (const Interval::Function& is_due = evaluator.eval_interval.is_due(); is_due != nullptr)
    return is_due(state, event);
  const Time interval =
      CountedInterval(evaluator.eval_interval.every(), state.max_duration, state.clock.batches_per_epoch);
  if (interval.value() <= 0 || evaluator.last_batch == state.timestamp.batch) return false;
  if (event == Event::kFitEnd) return true;
  const Event when = interval.unit() == TimeUnit::kEpoch       ? Event::kEpochEnd
                     : interval.unit() == TimeUnit::kIteration ? Event::kIterationEnd
                                                               : Event::kBatchEnd;
  if (event != when) return false;
  return IntervalCrossed(interval, state.clock.previous_timestamp, state.timestamp);
}

namespace {

void RunEvalForward(const Evaluator& evaluator, State& state, Engine& engine, Communicator& communicator) {
  const DataSpec& spec = evaluator.loader->spec();
  if (spec.microbatch_transform && state.batch.num_samples > 0)
    state.batch = spec.microbatch_transform(std::move(state.batch));
  ThrowIfError(engine.Run(Event::kEvalBeforeForward));
  if (const PromptDataset* prompts = PromptsOf(evaluator)) {
    AnswerPrompts(*prompts, state, communicator);
  } else if (state.batch.num_samples > 0) {
    WholeModelScope whole(state.sharding);
    try {
      const AutocastScope autocast(state.settings.precision, state.identity.device.type());
      state.outputs = state.model->eval_forward(state.batch);
    } catch (...) {
      RethrowWithPlace(state,
                       absl::StrCat("evaluation ", state.evaluation.label, ", its batch ",
                                    state.evaluation.timestamp.batch + 1, ", after batch ", state.timestamp.batch));
    }
    whole.End();
  } else {
    SkipEvalForward(evaluator, state, communicator);
  }
}

void CountEvalMicrobatch(const Evaluator& evaluator, State& state, Engine& engine) {
  ThrowIfError(engine.Run(Event::kEvalAfterForward));
  if (state.batch.num_samples == 0) return;
  for (const auto& metric : evaluator.metrics) metric->Update(state.outputs, state.batch);
}

// Makes one forward pass; the batch may be empty on this rank.
void RunEvalMicrobatch(const Evaluator& evaluator, State& state, Engine& engine, Communicator& communicator) {
  RunEvalForward(evaluator, state, engine, communicator);
  CountEvalMicrobatch(evaluator, state, engine);
}

// device_eval_microbatch_size: auto is kAutoMicrobatch, and kAutoMicrobatch - n once only n samples fit. Returns n, or
// 0.
int64_t FoundEvalMicrobatch(const Evaluator& evaluator) {
  return kAutoMicrobatch - evaluator.device_eval_microbatch_size;
}

// Returns whether the forward pass fitted into memory; that of a single sample must. Nothing counts yet.
bool FitsEvalForward(const Evaluator& evaluator, State& state, Engine& engine, Communicator& communicator) {
  const int64_t samples = state.batch.num_samples;
  try {
    RunEvalForward(evaluator, state, engine, communicator);
    return true;
  } catch (...) {
    if (samples <= 1 || !IsOutOfMemory(StatusFromCurrentException())) throw;
  }
  state.outputs = at::Tensor();
  return false;
}

// Halves the size whenever a pass does not fit, and repeats that pass; those before it count already. A rank need not
// ask others: nothing waits for them within a batch, since the model is whole.
void RunEvalBatchThatFits(Evaluator& evaluator, State& state, Engine& engine, Communicator& communicator) {
  const int64_t samples = state.batch.num_samples;
  const Batch whole = state.batch;
  const absl::Cleanup restore = [&] { state.batch = whole; };
  int64_t size = FoundEvalMicrobatch(evaluator);
  if (size == 0) size = std::max<int64_t>(samples, 1);
  for (int64_t begin = 0; begin == 0 || begin < samples;) {
    const int64_t end = std::min(begin + size, samples);
    state.batch = size < samples ? evaluator.loader->spec().Split(whole, begin, end) : whole;
    if (FitsEvalForward(evaluator, state, engine, communicator)) {
      CountEvalMicrobatch(evaluator, state, engine);
      begin = std::max<int64_t>(end, 1);
    } else {
      size = (end - begin) / 2;
      evaluator.device_eval_microbatch_size = kAutoMicrobatch - size;
    }
  }
}

// `most` is the number of samples of the rank that has the most.
void RunEvalBatch(Evaluator& evaluator, int64_t most, State& state, Engine& engine, Communicator& communicator) {
  ThrowIfError(engine.Run(Event::kEvalBatchStart));
  const int64_t samples = state.batch.num_samples, wanted = evaluator.device_eval_microbatch_size;
  const DataSpec& spec = evaluator.loader->spec();
  if (wanted < 0) {
    RunEvalBatchThatFits(evaluator, state, engine, communicator);
  } else if (wanted == 0 || wanted >= most) {
    RunEvalMicrobatch(evaluator, state, engine, communicator);
  } else {
    const Batch whole = state.batch;
    {
      const absl::Cleanup restore = [&] { state.batch = whole; };
      for (int64_t begin = 0; begin == 0 || begin < samples; begin += wanted) {
        if (wanted < samples) state.batch = spec.Split(whole, begin, std::min(begin + wanted, samples));
        RunEvalMicrobatch(evaluator, state, engine, communicator);
      }
    }
    const auto passes = [wanted](int64_t size) { return std::max<int64_t>(1, (size + wanted - 1) / wanted); };
    for (int64_t i = passes(samples); i < passes(most); ++i) SkipEvalForward(evaluator, state, communicator);
  }
  ThrowIfError(engine.Run(Event::kEvalBatchEnd));
}

// Replaces each list by those of all ranks, in two collectives.
void GatherLists(const MetricList& metrics, Communicator& communicator) {
  std::vector<std::vector<double>*> lists;
  for (const auto& metric : metrics) {
    for (std::vector<double>& list : metric->lists()) lists.push_back(&list);
  }
  const size_t ranks = static_cast<size_t>(communicator.world_size()), count = lists.size();
  if (ranks == 1 || count == 0) return;
  const size_t own = static_cast<size_t>(communicator.rank()) * count;
  std::vector<double> sizes(ranks * count);
  for (size_t i = 0; i < count; ++i) sizes[own + i] = static_cast<double>(lists[i]->size());
  communicator.AllReduceSum(absl::MakeSpan(sizes));
  size_t longest = 0;  // of a rank's lists together
  for (size_t rank = 0; rank < ranks; ++rank) {
    double length = 0;
    for (size_t i = 0; i < count; ++i) length += sizes[rank * count + i];
    longest = std::max(longest, static_cast<size_t>(length));
  }
  std::vector<double> part;
  for (const std::vector<double>* list : lists) part.insert(part.end(), list->begin(), list->end());
  part.resize(longest);
  const at::Tensor input = torch::tensor(part, at::kDouble).to(communicator.device());
  at::Tensor all = torch::empty({static_cast<int64_t>(ranks * longest)}, input.options());
  communicator.StartAllGather(all, input)->Wait();
  all = all.cpu();
  for (std::vector<double>* list : lists) list->clear();
  for (size_t rank = 0; rank < ranks; ++rank) {
    const double* next = all.data_ptr<double>() + rank * longest;
    for (size_t i = 0; i < count; ++i) {
      const auto size = static_cast<size_t>(sizes[rank * count + i]);
      lists[i]->insert(lists[i]->end(), next, next + size);
      next += size;
    }
  }
}

// Sums all metrics, and the tokens of the evaluation, over ranks in one collective.
void SumOverRanks(const MetricList& metrics, Communicator& communicator, Timestamp& time) {
  if (communicator.world_size() == 1) return;
  std::vector<double> sums = {static_cast<double>(time.token)};  // exact up to 2^53
  for (const auto& metric : metrics) {
    const auto own = metric->sums();
    sums.insert(sums.end(), own.begin(), own.end());
  }
  communicator.AllReduceSum(absl::MakeSpan(sums));
  time.token = time.token_in_epoch = time.token_in_iteration = static_cast<int64_t>(sums[0]);
  size_t next = 1;
  for (const auto& metric : metrics) {
    for (double& sum : metric->sums()) sum = sums[next++];
  }
}

bool IsFoundIn(const std::string& pattern, const std::string& name) {
  if (absl::StrContains(absl::AsciiStrToLower(name), absl::AsciiStrToLower(pattern))) return true;
  try {
    return std::regex_search(name, std::regex(pattern, std::regex::icase));
  } catch (const std::regex_error&) {
    return false;
  }
}

}  // namespace

void RunEvaluator(Evaluator& evaluator, State& state, Engine& engine, Communicator& communicator, Logger& logger) {
  const torch::NoGradGuard no_grad;
  BroadcastBuffers(state, communicator);
  state.model->eval();
  state.evaluation.label = evaluator.label;
  state.evaluation.batches = evaluator.loader->batches_per_epoch();
  state.evaluation.timestamp = Timestamp();
  const Loader* const dataloader = std::exchange(state.dataloader, evaluator.loader.get());
  // Also after an error: a program may catch it and train on.
  const absl::Cleanup restore = [&state, dataloader, train_batch = state.batch] {
    state.dataloader = dataloader;
    state.batch = train_batch;
    state.outputs = at::Tensor();
    state.model->train();
  };
  for (const auto& metric : evaluator.metrics) metric->Reset();
  ThrowIfError(engine.Run(Event::kEvalStart));
  for (;;) {
    LoadedBatch loaded = evaluator.batches->Load(/*epoch=*/0, state.evaluation.timestamp.sample);
    const int64_t samples = loaded.global_samples;
    if (samples == 0) break;
    state.global_samples = samples;
    state.batch = evaluator.loader->spec().Prepare(std::move(loaded.batch), state.identity.device);
    RunEvalBatch(evaluator, (samples + state.identity.data_ranks - 1) / state.identity.data_ranks, state, engine,
                 communicator);
    state.evaluation.timestamp.ToNextBatch(samples, state.batch.num_tokens, absl::ZeroDuration());
  }
  SumOverRanks(evaluator.metrics, communicator, state.evaluation.timestamp);
  GatherLists(evaluator.metrics, communicator);
  for (const auto& metric : evaluator.metrics) {
    logger.Log(absl::StrCat("metrics/", evaluator.label, "/", metric->name()), metric->Compute());
    if (const auto* with_table = dynamic_cast<const TableMetric*>(metric.get())) {
      const TableMetric::Table table = with_table->ToTable();
      logger.LogTable({state.timestamp, absl::StrCat(metric->name(), "/", evaluator.label), table.columns, table.rows});
    }
  }
  if (evaluator.device_eval_microbatch_size < 0) {
    const int64_t found = FoundEvalMicrobatch(evaluator),
                  whole = evaluator.loader->global_batch_size() / state.identity.data_ranks;
    logger.Log(absl::StrCat("trainer/", evaluator.label, "/device_eval_microbatch_size"),
               static_cast<double>(found == 0 ? whole : found));
  }
  evaluator.last_batch = state.timestamp.batch;
  ThrowIfError(engine.Run(Event::kEvalEnd));
  logger.Flush(state.timestamp);
}

absl::StatusOr<MetricList> SelectMetrics(MetricList metrics, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return metrics;
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric->name());
  std::vector<bool> chosen(metrics.size(), false);
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!IsFoundIn(pattern, names[i])) continue;
      found = chosen[i] = true;
    }
    if (!found) {
      return absl::InvalidArgumentError(
          absl::StrCat("metric_names: `", pattern, "` matches no metric; the model has ", absl::StrJoin(names, ", ")));
    }
  }
  MetricList selected;
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (chosen[i]) selected.push_back(std::move(metrics[i]));
  }
  return selected;
}

absl::StatusOr<MetricList> MetricsOf(const EvaluatorOptions& options, Model& model) {
  return SelectMetrics(options.make_metrics ? options.make_metrics() : model.metrics(/*is_train=*/false),
                       options.metric_names);
}

}  // namespace composer
