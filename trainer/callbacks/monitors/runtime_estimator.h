// Logs an estimate of the run's remaining time, time/remaining_estimate, in time_unit, at every batch end after the
// first.
//
//   f = share of max_duration done; t = seconds of training; f0, t0 = the same after this process's first batch, which
//   is skipped since it is slow
//   training left   = (t - t0) / (f - f0) * (1 - f)
//   evaluation left = max(0, e / fe - e), e = seconds of evaluation so far, fe = f when the last evaluation ended
//
// The evaluation's part is based on fe and not on f, so the estimate does not jump between evaluations. Rates are
// measured by this process only, since a resumed run may be on another machine.
// Source: mosaicml composer/callbacks/runtime_estimator.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/time.h"
#include "trainer/core/callback.h"
#include "trainer/core/logger.h"

namespace composer {

class RuntimeEstimator final : public Callback {
 public:
  struct Options {
    int skip_batches = 1;                       // of this process, before the measurement starts
    absl::Duration time_unit = absl::Hours(1);  // of the logged value: a second, a minute, an hour or a day
  };
  // The clock, which times the evaluations, must outlive the estimator.
  explicit RuntimeEstimator(const Options& options, const Clock& clock = RealClock::Get())
      : options_(options), clock_(clock) {}

  std::string name() const override { return "RuntimeEstimator"; }
  EventSet events() const override { return {Event::kFitStart, Event::kBatchEnd, Event::kEvalStart, Event::kEvalEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view json) override;

 private:
  struct Point {
    double fraction, seconds;
  };
  static Point Here(const State& state);
  void OnBatchEnd(const State& state, Logger& logger);

  Options options_;
  const Clock& clock_;
  int seen_ = 0;  // batches seen, until the measurement starts
  std::optional<Point> start_;
  absl::Time eval_started_;
  double eval_seconds_ = 0;
  double eval_fraction_ = 0;  // fe
  Logger::MetricId id_ = 0;
};

}  // namespace composer
