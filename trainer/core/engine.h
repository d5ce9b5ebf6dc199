// The engine is the only dispatcher of events. It runs the algorithms that match, in the order of the passes, then the
// callbacks, then the loggers that want to see the event; at INIT loggers and callbacks come first. With a tracer in
// the state, each event, algorithm and callback is a span.
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
#include "trainer/core/logger.h"
#include "trainer/core/passes.h"
#include "trainer/core/state.h"
#include "trainer/core/tracer.h"

namespace composer {

struct EngineOptions {
  std::vector<PlacedPass> algorithm_passes;  // besides the defaults
  // If true, each application of an algorithm is logged in its batch as the metric algorithm_traces/<name>/<event> = 1.
  bool log_traces = false;
};

// EventSpans holds the span names of one participant in a run, one per event: "event/after_loss" for the engine itself,
// "algorithm/MixUp/event/before_forward", "callback/LRMonitor/event/batch_end". The names are those of mosaicml's
// profiler markers.
class EventSpans {
 public:
  // `prefix` is like "algorithm/MixUp/"; `category` must be a constant.
  EventSpans(std::string prefix, absl::string_view category);

  // Creates the name at the first use; its address is stable.
  const TraceName& At(Event event);

 private:
  struct Made {
    std::string text;
    TraceName name;
  };
  std::string prefix_;
  absl::string_view category_;
  std::array<std::unique_ptr<Made>, kNumEvents> made_;
};

// Threads: the training thread. An event without listeners costs three tests.
class Engine {
 public:
  // Both must outlive the engine. It reads the lists of algorithms and callbacks here; later they change only through
  // Add.
  Engine(State& state, Logger& logger, EngineOptions options = {});
  // Calls no callback. The owner must call Close, since a callback may throw.
  ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns the first non-OK status, annotated with its origin and the event; the rest of the event is skipped. Returns
  // kFailedPrecondition after Close.
  absl::Status Run(Event event) {
    const bool wanted = listened_.Has(event) || logger_.events().Has(event) || state_.tracer != nullptr;
    return wanted ? Dispatch(event) : absl::OkStatus();
  }

  // Whether events seed what algorithms draw, which is the default. Inside a step that is captured they must not.
  void SetSeeding(bool on) { seeds_ = on; }

  // Appends an algorithm to state.algorithms. It is too late for its ChangeModel.
  void Add(std::unique_ptr<Algorithm> algorithm);

  // Calls Callback::Close of every callback once, in their order, and then PostClose of those whose Close succeeded;
  // call it also after an error. A failure of one (a status or an exception) is logged and does not keep the others
  // from being closed.
  void Close();

 private:
  struct AlgorithmEntry {
    Algorithm* algorithm;
    std::string name;
    EventSet wanted;
    EventSpans spans;
    std::array<Logger::MetricId, kNumEvents> trace_ids;  // -1: not yet interned by the logger
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
  bool seeds_ = true;
};

}  // namespace composer
