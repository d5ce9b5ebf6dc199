// Passes the run's settings to the loggers, once, before anything else is logged, and enabled_algorithms/<name> for
// each of its algorithms. Source: mosaicml composer/trainer/trainer.py (auto_log_hparams). SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/core/callback.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {

class LogHyperparameters final : public Callback {
 public:
  explicit LogHyperparameters(Hyperparameters hyperparameters) : hyperparameters_(std::move(hyperparameters)) {}
  std::string name() const override { return "LogHyperparameters"; }
  EventSet events() const override { return {Event::kInit}; }
  absl::Status Run(Event event, State& state, Logger& logger) override {
    Hyperparameters all = hyperparameters_;
    for (const auto& algorithm : state.algorithms)
      all.emplace_back(absl::StrCat("enabled_algorithms/", algorithm->name()), "true");
    logger.LogHyperparameters(all);
    return absl::OkStatus();
  }

 private:
  Hyperparameters hyperparameters_;
};

}  // namespace composer
