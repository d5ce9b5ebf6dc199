// Passes the run's settings to the loggers, once, before anything else is logged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "trainer/core/callback.h"
#include "trainer/core/logger.h"

namespace composer {

class LogHyperparameters final : public Callback {
 public:
  explicit LogHyperparameters(Hyperparameters hyperparameters) : hyperparameters_(std::move(hyperparameters)) {}
  std::string name() const override { return "LogHyperparameters"; }
  EventSet events() const override { return {Event::kInit}; }
  absl::Status Run(Event event, State& state, Logger& logger) override {
    logger.LogHyperparameters(hyperparameters_);
    return absl::OkStatus();
  }

 private:
  Hyperparameters hyperparameters_;
};

}  // namespace composer
