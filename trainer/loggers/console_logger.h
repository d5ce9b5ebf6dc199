// Prints metrics as text on the console, in Composer's format:
//
//   [epoch=1][batch=3/10]:              with max_duration in epochs; else [batch=3/100], [sample=96/1024], …
//            Train time/epoch: 0
//            Train loss/train/total: 0.4123
//   [Eval batch=3/10] Eval on eval data             at ten points of an evaluation, then with its metrics:
//   [Eval batch=10/10] Eval on eval data:
//            Eval metrics/eval/MulticlassAccuracy: 0.8750
//
// Metrics that were logged since the last lines are shown with their latest value: at the first batch and every
// `interval` (ba or ep), and at the end. The hyperparameters come first, between two rows of 30 asterisks.
//
// The logger consists of two objects that share one console: a callback sees the state of the run, and a destination
// gets the values.
// Source: mosaicml composer/loggers/console_logger.py (which writes on every rank; here only rank 0 does).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/time.h"
#include "trainer/core/callback.h"
#include "trainer/core/logger.h"

namespace composer {

struct ConsoleOptions {
  int fd = 2;
  Time interval = Time::Batches(1);  // kBatch or kEpoch, at least 1
  // A progress bar is drawn on the same terminal: its line is erased before writing.
  bool erase_line = false;
};

struct ConsoleLogger {
  std::unique_ptr<Callback> callback;
  std::unique_ptr<LoggerDestination> destination;
};
ConsoleLogger MakeConsoleLogger(const ConsoleOptions& options);

}  // namespace composer
