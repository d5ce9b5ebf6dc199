// Ends the run once a metric is better than a threshold: below it when less is better, else above it.
// Source: mosaicml composer/callbacks/threshold_stopper.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/callbacks/monitored_metric.h"
#include "trainer/core/callback.h"

namespace composer {

// Warns at the end of a run in which nothing logged the metric.
class ThresholdStopper final : public Callback {
 public:
  struct Options {
    std::string monitor;  // "metrics/eval/MulticlassAccuracy", "loss/train/total"
    double threshold = 0;
    Better better = Better::kByName;
  };
  explicit ThresholdStopper(const Options& options) : options_(options), metric_(options.monitor, options.better) {}

  std::string name() const override { return "ThresholdStopper"; }
  EventSet events() const override { return {Event::kBatchEnd, Event::kEvalEnd, Event::kFitEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  Options options_;
  MonitoredMetric metric_;
};

}  // namespace composer
