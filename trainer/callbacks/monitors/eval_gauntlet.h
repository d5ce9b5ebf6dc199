// Averages of in-context tasks' accuracies by category, as llm-foundry's eval_gauntlet has them. After all evaluations
// it logs icl/metrics/eval_gauntlet/<name> for each category and each average:
//
//   score of a task      (accuracy - random_baseline) / (1 - random_baseline)
//   score of a category  mean of its tasks' scores, by weight
//   average              mean of its categories' scores, 0 without any
//
// Without subtract_random_baseline the score is the accuracy, without rescale_accuracy it is not divided. A task's
// accuracy is the mean over its evaluations (categories of its lines) and accuracies. A category one of whose tasks was
// not evaluated is left out, with a warning. Source: llm-foundry llmfoundry/callbacks/eval_gauntlet_callback.py.
// Golden: tests/golden/icl.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainer/core/callback.h"

namespace composer {

struct EvalGauntletOptions {
  struct Benchmark {
    std::string task;            // "copa/0-shot": the beginning of its evaluations' labels
    double random_baseline = 0;  // below 1
    double weight = 1;           // above 0
  };
  struct Category {
    std::string name;
    std::vector<Benchmark> benchmarks;
  };
  bool subtract_random_baseline = true, rescale_accuracy = true;
  std::vector<Category> categories;
  std::vector<std::pair<std::string, std::vector<std::string>>> averages;  // name, categories
};

// Returns the scores of categories, then the averages, from the accuracies of tasks by name. `missing` gets the names
// of the tasks that are not among them. Pure.
std::vector<std::pair<std::string, double>> GauntletScores(const EvalGauntletOptions& options,
                                                           const std::map<std::string, double>& accuracies,
                                                           std::vector<std::string>& missing);

class EvalGauntlet final : public Callback {
 public:
  explicit EvalGauntlet(EvalGauntletOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "EvalGauntlet"; }
  EventSet events() const override { return {Event::kEvalAfterAll, Event::kEvalStandaloneEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  EvalGauntletOptions options_;
  bool has_warned_ = false;
};

}  // namespace composer
