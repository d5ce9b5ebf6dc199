// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/eval_gauntlet.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

// Returns nullopt when a task is missing.
std::optional<double> CategoryScore(const EvalGauntletOptions& options, const EvalGauntletOptions::Category& category,
                                    const std::map<std::string, double>& accuracies,
                                    std::vector<std::string>& missing) {
  double sum = 0, weights = 0;
  bool complete = true;
  for (const EvalGauntletOptions::Benchmark& benchmark : category.benchmarks) {
    const auto found = accuracies.find(benchmark.task);
    if (found == accuracies.end()) {
      missing.push_back(benchmark.task);
      complete = false;
      continue;
    }
    double score = found->second;
    if (options.subtract_random_baseline) score -= benchmark.random_baseline;
    if (options.subtract_random_baseline && options.rescale_accuracy) score /= 1 - benchmark.random_baseline;
    sum += benchmark.weight * score;
    weights += benchmark.weight;
  }
  return complete ? std::optional(sum / weights) : std::nullopt;
}

// Returns the accuracies of the tasks that were evaluated.
std::map<std::string, double> AccuraciesOf(const State& state) {
  std::map<std::string, std::vector<double>> values;
  for (const Evaluator& evaluator : state.evaluators) {
    const std::vector<std::string> parts = absl::StrSplit(evaluator.label, '/');
    if (parts.size() < 2) continue;
    for (const auto& metric : evaluator.metrics) {
      if (absl::StrContains(metric->name(), "Accuracy"))
        values[absl::StrCat(parts[0], "/", parts[1])].push_back(metric->Compute());
    }
  }
  std::map<std::string, double> means;
  for (const auto& [task, all] : values) {
    double sum = 0;
    for (const double value : all) sum += value;
    means[task] = sum / static_cast<double>(all.size());
  }
  return means;
}

}  // namespace

std::vector<std::pair<std::string, double>> GauntletScores(const EvalGauntletOptions& options,
                                                           const std::map<std::string, double>& accuracies,
                                                           std::vector<std::string>& missing) {
  std::vector<std::pair<std::string, double>> scores, averages;
  for (const EvalGauntletOptions::Category& category : options.categories) {
    const std::optional<double> score = CategoryScore(options, category, accuracies, missing);
    if (score.has_value()) scores.emplace_back(category.name, *score);
  }
  for (const auto& [name, categories] : options.averages) {
    double sum = 0, count = 0;
    for (const auto& [category, score] : scores) {
      if (std::find(categories.begin(), categories.end(), category) == categories.end()) continue;
      sum += score;
      count += 1;
    }
    averages.emplace_back(name, count == 0 ? 0 : sum / count);
  }
  scores.insert(scores.end(), averages.begin(), averages.end());
  return scores;
}

absl::Status EvalGauntlet::Run(Event /*event*/, State& state, Logger& logger) {
  const std::map<std::string, double> accuracies = AccuraciesOf(state);
  if (accuracies.empty()) return absl::OkStatus();
  std::vector<std::string> missing;
  for (const auto& [name, score] : GauntletScores(options_, accuracies, missing))
    logger.Log(absl::StrCat("icl/metrics/eval_gauntlet/", name), score);
  logger.Flush(state.timestamp);  // each evaluation before did so
  if (!missing.empty() && !has_warned_ && state.identity.rank == 0)
    LOG(WARNING) << "eval_gauntlet: no icl_tasks are called " << absl::StrJoin(missing, ", ")
                 << "; their categories are left out";
  has_warned_ = true;
  return absl::OkStatus();
}

}  // namespace composer
