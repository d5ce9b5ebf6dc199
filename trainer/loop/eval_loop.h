// Runs one evaluator: every sample once, whatever the number of ranks is, with exact metrics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/communicator.h"
#include "trainer/core/engine.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/data/prefetcher.h"

namespace composer {

struct EvaluatorOptions;

// Returns whether the evaluator runs at this event (kFitStart, kBatchEnd, kEpochEnd, kIterationEnd or kFitEnd). At
// kFitStart, which is asked with eval_first only, every one runs. Epoch intervals fire at kEpochEnd, those in
// iterations at kIterationEnd, others at kBatchEnd; at kFitEnd it runs unless it just did. Else a function decides
// alone. Source: mosaicml composer/core/evaluator.py, evaluate_periodically().
bool EvaluatorIsDue(const Evaluator& evaluator, Event event, const State& state);

// Emits EVAL_START … EVAL_END, logs metrics/<label>/<metric> and flushes them as one record. The model is in evaluation
// mode meanwhile; with several ranks rank 0's buffers are broadcast first. State::evaluation.timestamp counts the
// samples of all ranks; its tokens are this rank's until the ranks add them up, with the metrics, before EVAL_END.
// `communicator` has the ranks with other samples. Throws what the model or the collectives throw.
void RunEvaluator(Evaluator& evaluator, State& state, Engine& engine, Communicator& communicator, Logger& logger);

// Returns the metrics whose name contains a match of one of the patterns (a regular expression, or plain text; ignoring
// case); all when there are no patterns. Returns kInvalidArgument if a pattern matches none, with the existing names.
absl::StatusOr<MetricList> SelectMetrics(MetricList metrics, const std::vector<std::string>& patterns);

// Returns new metrics of an evaluation of the model, those that the options select.
absl::StatusOr<MetricList> MetricsOf(const EvaluatorOptions& options, Model& model);

}  // namespace composer
