// The only dispatcher of events: algorithms that match, in the order of the passes; then callbacks. At INIT callbacks
// come first. Source: mosaicml composer/core/engine.py, passes.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/callback.h"
#include "trainer/core/event.h"
#include "trainer/core/state.h"
#include "trainer/loggers/logger.h"

namespace composer {

// One application of an algorithm.
struct AlgorithmTrace {
  std::string algorithm;
  Event event;
  int64_t batch;
};

// Threads: the training thread. An event nobody listens to costs one bit test.
class Engine {
 public:
  // Both must outlive the engine; the lists of algorithms and callbacks are read here and must not change afterwards.
  Engine(State& state, Logger& logger);

  // The first non-OK status, annotated with who returned it and the event; the rest of the event is skipped.
  absl::Status Run(Event event) { return listened_.Has(event) ? Dispatch(event) : absl::OkStatus(); }
  const std::vector<AlgorithmTrace>& traces() const { return traces_; }

 private:
  absl::Status Dispatch(Event event);
  absl::Status RunAlgorithms(Event event);
  absl::Status RunCallbacks(Event event);

  State& state_;
  Logger& logger_;
  EventSet listened_;
  std::array<std::vector<Callback*>, kNumEvents> callbacks_;
  std::vector<AlgorithmTrace> traces_;
};

}  // namespace composer
