// Algorithms for the tests of what a step lets algorithms do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/trainer/loop/small_run.h"

namespace composer {

// Calls fn at these events.
class DoAt : public Algorithm {
 public:
  using Fn = std::function<void(State&)>;
  DoAt(EventSet events, Fn fn) : events_(events), fn_(std::move(fn)) {}
  std::string name() const override { return "DoAt"; }
  EventSet events() const override { return events_; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status Apply(Event /*event*/, State& state, Logger& /*logger*/) override {
    fn_(state);
    return absl::OkStatus();
  }

 private:
  EventSet events_;
  Fn fn_;
};

inline void AddAlgorithm(TrainerOptions& options, EventSet events, DoAt::Fn fn) {
  options.algorithms.push_back(std::make_unique<DoAt>(events, std::move(fn)));
}

// Keeps the samples with an even index.
inline void KeepEvenSamples(State& state) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < state.batch.sample_ids.size(); ++i) {
    if (state.batch.sample_ids[i] % 2 == 0) rows.push_back(static_cast<int64_t>(i));
  }
  state.batch = state.batch.Select(rows);
}

}  // namespace composer
