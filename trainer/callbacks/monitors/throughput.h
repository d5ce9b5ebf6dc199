// Logs the two rates that every job records. With s, k, t = samples, tokens and seconds of training over the last
// kWindow batches (fewer at the start), it logs at every batch end but the first
//
//   throughput/samples_per_sec    s / t
//   throughput/tokens_per_sec     k / t     when the data has tokens
//
// t excludes evaluations and checkpoints. Jobs with a speed_monitor, which logs these rates and more, do not use this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "trainer/core/callback.h"
#include "trainer/core/logger.h"

namespace composer {

// A step costs O(1) and allocates nothing.
class Throughput final : public Callback {
 public:
  static constexpr size_t kWindow = 50;

  std::string name() const override { return "Throughput"; }
  EventSet events() const override { return {Event::kFitStart, Event::kBatchEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  struct Point {
    absl::Duration time;
    int64_t samples = 0, tokens = 0;
  };
  std::array<Point, kWindow + 1> ring_;
  size_t count_ = 0;  // points seen since the start
  Logger::MetricId samples_ = 0, tokens_ = 0;
};

}  // namespace composer
