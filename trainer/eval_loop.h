// Runs one evaluator: every sample once, whatever the number of ranks, metrics exact.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "trainer/core/engine.h"
#include "trainer/core/state.h"
#include "trainer/data/data_loader.h"
#include "trainer/loggers/logger.h"
#include "trainer/parallel/communicator.h"

namespace composer {

struct Evaluator {
  std::string label;
  std::unique_ptr<DataLoader> loader;  // not shuffled, nothing dropped, uneven shares
  MetricList metrics;
  Time eval_interval;
  int64_t last_batch = -1;  // of the training, when it last ran
};

// Should it run at this event (kBatchEnd, kEpochEnd or kFitEnd)? Epoch intervals fire at kEpochEnd, others at
// kBatchEnd; at kFitEnd it runs unless it just did. Source: mosaicml composer/core/evaluator.py,
// evaluate_periodically().
bool EvaluatorIsDue(const Evaluator& evaluator, Event event, const State& state);

// Emits EVAL_START … EVAL_END, logs metrics/<label>/<metric> and flushes them as one record. The model is in evaluation
// mode meanwhile; with several ranks rank 0's buffers are broadcast first. Throws what the model or the collectives
// throw.
void RunEvaluator(Evaluator& evaluator, State& state, Engine& engine, Communicator& communicator, Logger& logger);

// tensor buffers of the model (BatchNorm's running statistics) = rank 0's, as DDP's broadcast does.
void BroadcastBuffers(const Model& model, Communicator& communicator);

}  // namespace composer
