// Logs the learning rate that each parameter group had in the batch that just ended, as lr-<Optimizer>/group<i>, e.g.
// `lr-DecoupledAdamW/group0`. Source: mosaicml composer/callbacks/lr_monitor.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/core/callback.h"
#include "trainer/core/logger.h"

namespace composer {

class LRMonitor final : public Callback {
 public:
  std::string name() const override { return "LRMonitor"; }
  EventSet events() const override { return {Event::kFitStart, Event::kBatchEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  std::vector<Logger::MetricId> ids_;  // by group
};

}  // namespace composer
