// Ends the run once a metric is better than a threshold: below it when less is better, else above it. Metrics of an
// evaluation are checked when it ends; others at the end of each epoch, or with stop_on_batch at each batch end.
// Source: mosaicml composer/callbacks/threshold_stopper.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/callbacks/stops/monitored_metric.h"
#include "trainer/core/callback.h"

namespace composer {

// Warns at the end of a run in which the metric was never logged.
class ThresholdStopper final : public Callback {
 public:
  struct Options {
    std::string monitor;  // "metrics/eval/MulticlassAccuracy", "loss/train/total"
    double threshold = 0;
    Better better = Better::kByName;
    bool stop_on_batch = false;
    Comparison compare;  // of the value with the threshold, in place of `better`. May be empty
  };
  explicit ThresholdStopper(const Options& options)
      : options_(options),
        metric_(options.monitor, options.better, options.stop_on_batch ? LookAt::kBatchEnd : LookAt::kEpochEnd,
                options.compare) {}

  std::string name() const override { return "ThresholdStopper"; }
  EventSet events() const override { return {Event::kBatchEnd, Event::kEpochEnd, Event::kEvalEnd, Event::kFitEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  Options options_;
  MonitoredMetric metric_;
};

}  // namespace composer
