// Ends the run when a metric has not improved for longer than `patience`.
//
//   a value is the new best when it is better by more than min_delta than the best so far (the first one always is)
//   the run ends when now - (when the best was seen) > patience, in patience's unit, as of the metric's latest value;
//   so 1ep with an evaluation each epoch tolerates one bad evaluation and ends at the second
//   metrics of an evaluation are checked when it ends; others at the end of each epoch when patience is in epochs,
//   else at each batch end
//
// The best value and when it was seen are saved with checkpoints.
// Source: mosaicml composer/callbacks/early_stopper.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/time.h"
#include "trainer/callbacks/stops/monitored_metric.h"
#include "trainer/core/callback.h"

namespace composer {

// Warns at the end of a run in which the metric was never logged.
class EarlyStopper final : public Callback {
 public:
  struct Options {
    std::string monitor;  // "metrics/eval/MulticlassAccuracy", "loss/train/total"
    Better better = Better::kByName;
    double min_delta = 0;
    Time patience = Time::Epochs(1);
    Comparison compare;  // in place of `better`; the values must then differ by more than min_delta. May be empty
  };
  explicit EarlyStopper(const Options& options)
      : options_(options),
        metric_(options.monitor, options.better,
                options.patience.unit() == TimeUnit::kEpoch ? LookAt::kEpochEnd : LookAt::kBatchEnd, options.compare) {}

  std::string name() const override { return "EarlyStopper"; }
  EventSet events() const override { return {Event::kBatchEnd, Event::kEpochEnd, Event::kEvalEnd, Event::kFitEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view json) override;

 private:
  bool OutOfPatience(const State& state) const;

  Options options_;
  MonitoredMetric metric_;
  bool has_best_ = false;
  double best_ = 0;
  Timestamp best_seen_;
};

}  // namespace composer
