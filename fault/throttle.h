// Slows training down by sleeping after every batch. This is for drills and demos in which someone needs time to kill a
// worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/clock.h"
#include "trainer/core/callback.h"

namespace composer {

class Throttle final : public Callback {
 public:
  struct Options {
    absl::Duration duration = absl::ZeroDuration();  // per batch
  };
  // clock must outlive the callback.
  explicit Throttle(const Options& options, Clock& clock = RealClock::Get()) : options_(options), clock_(clock) {}

  std::string name() const override { return "Throttle"; }
  EventSet events() const override { return {Event::kBatchEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override {
    if (options_.duration > absl::ZeroDuration()) clock_.SleepFor(options_.duration);
    return absl::OkStatus();
  }

 private:
  Options options_;
  Clock& clock_;
};

}  // namespace composer
