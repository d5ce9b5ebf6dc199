// The only dispatcher of events: algorithms that match, in the order of the passes; then callbacks. At INIT callbacks
// come first. With a tracer in the state, each event, algorithm and callback is a span.
// Source: mosaicml composer/core/engine.py, passes.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/callback.h"
#include "trainer/core/event.h"
#include "trainer/core/event_spans.h"
#include "trainer/core/logger.h"
#include "trainer/core/passes.h"
#include "trainer/core/state.h"

namespace composer {

struct EngineOptions {
  std::vector<PlacedPass> algorithm_passes;  // besides the defaults
  // Each application of an algorithm is logged as the metric algorithm_traces/<name>/<event> = 1 of its batch.
  bool log_traces = false;
};

// Threads: the training thread. An event nobody listens to costs two tests.
class Engine {
 public:
  // Both must outlive the engine; the lists of algorithms and callbacks are read here and change only through Add.
  Engine(State& state, Logger& logger, EngineOptions options = {});
  // Calls no callback: what Close would do must be asked for, since a callback may throw.
  ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The first non-OK status, annotated with who returned it and the event; the rest of the event is skipped.
  // kFailedPrecondition after Close.
  absl::Status Run(Event event) {
    return listened_.Has(event) || state_.tracer != nullptr ? Dispatch(event) : absl::OkStatus();
  }

  // One more algorithm, at the end of state.algorithms. The trainer itself adds none after construction.
  void Add(std::unique_ptr<Algorithm> algorithm);

  // Callback::Close of every callback, in their order, once; also to be called after an error. What goes wrong in one
  // (a status or an exception) is logged and does not keep the others from being closed.
  void Close();

 private:
  struct AlgorithmEntry {
    Algorithm* algorithm;
    std::string name;
    EventSet wanted;
    EventSpans spans;
    std::array<Logger::MetricId, kNumEvents> trace_ids;  // -1: not yet known to the logger
  };
  struct CallbackEntry {
    Callback* callback;
    std::string name;
    EventSpans spans;
  };

  absl::Status Dispatch(Event event);
  absl::Status RunAlgorithms(Event event);
  absl::Status RunCallbacks(Event event);
  void ReadAlgorithm(Algorithm& algorithm);
  void ReadCallback(Callback& callback);
  void LogTrace(AlgorithmEntry& entry, Event event);

  State& state_;
  Logger& logger_;
  const bool log_traces_;
  const std::vector<AlgorithmPass> passes_;
  EventSet listened_;
  std::vector<std::unique_ptr<AlgorithmEntry>> algorithms_;
  std::vector<std::unique_ptr<CallbackEntry>> callbacks_;
  std::array<std::vector<CallbackEntry*>, kNumEvents> listeners_;
  EventSpans spans_;
  bool is_closed_ = false;
};

}  // namespace composer
