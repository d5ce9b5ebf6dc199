// A run that a test steps through by hand: state, logger and clock, without a model or a loop. Record() makes the
// logger write, for which some callbacks wait, and exposes what was written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "base/clock.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/loggers/in_memory.h"

namespace composer {

class CallbackTest : public ::testing::Test {
 protected:
  CallbackTest() {
    state_.max_duration = Time::Epochs(2);
    state_.clock.batches_per_epoch = 4;
    state_.evaluation.label = "eval";
  }
  absl::Status Fire(Callback& callback, Event event) { return callback.Run(event, state_, logger_); }
  void Advance(absl::Duration duration, int64_t samples = 16, int64_t tokens = 0) {
    state_.clock.previous_timestamp = state_.timestamp;
    state_.timestamp.ToNextBatch(samples, tokens, duration);
  }
  // Runs one batch, then BATCH_END.
  void Step(Callback& callback, absl::Duration duration, int64_t samples = 16, int64_t tokens = 0) {
    Advance(duration, samples, tokens);
    ASSERT_TRUE(Fire(callback, Event::kBatchEnd).ok());
  }
  void Evaluate(Callback& callback, absl::Duration duration) {
    ASSERT_TRUE(Fire(callback, Event::kEvalStart).ok());
    clock_.Advance(duration);
    ASSERT_TRUE(Fire(callback, Event::kEvalEnd).ok());
  }

  MetricHistory& Record() {
    if (!logger_.has_destinations()) logger_.AddDestination(std::make_unique<InMemoryLogger>(&history_));
    return history_;
  }

  ManualClock clock_;
  State state_;
  MetricHistory history_;
  Logger logger_;
};

}  // namespace composer
