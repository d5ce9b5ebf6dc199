// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/saved_metrics.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/format/json.h"

namespace composer {
namespace {

using SumsJson = nlohmann::json;

SumsJson JsonOf(const MetricList& metrics) {
  SumsJson all = SumsJson::object();
  for (const auto& metric : metrics) {
    const auto sums = metric->sums();
    SumsJson lists = SumsJson::array();
    for (const std::vector<double>& list : metric->lists()) lists.push_back(list);
    all[metric->name()] = {{"sums", std::vector<double>(sums.begin(), sums.end())}, {"lists", std::move(lists)}};
  }
  return all;
}

// JSON has no NaN and no infinity; null stands for them.
bool ReadNumbers(const SumsJson& json, std::vector<double>& numbers) {
  if (!json.is_array()) return false;
  for (const SumsJson& number : json) {
    if (!number.is_number() && !number.is_null()) return false;
    numbers.push_back(number.is_null() ? std::numeric_limits<double>::quiet_NaN() : number.get<double>());
  }
  return true;
}

bool Restore(const SumsJson& json, Metric& metric) {
  if (!json.is_object() || !json.contains("sums") || !json.contains("lists") || !json["lists"].is_array()) return false;
  std::vector<double> sums;
  std::vector<std::vector<double>> lists(json["lists"].size());
  if (!ReadNumbers(json["sums"], sums)) return false;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (!ReadNumbers(json["lists"][i], lists[i])) return false;
  }
  metric.Reset();
  if (metric.sums().size() != sums.size() || metric.lists().size() != lists.size()) return true;
  std::copy(sums.begin(), sums.end(), metric.sums().begin());
  std::move(lists.begin(), lists.end(), metric.lists().begin());
  return true;
}

bool RestoreAll(const SumsJson& json, const MetricList& metrics) {
  if (!json.is_object()) return false;
  return std::all_of(metrics.begin(), metrics.end(), [&](const auto& metric) {
    const auto found = json.find(metric->name());
    return found == json.end() || Restore(*found, *metric);
  });
}

}  // namespace

std::string SavedMetrics(const State& state) {
  SumsJson evaluations = SumsJson::object();
  for (const Evaluator& evaluator : state.evaluators) {
    if (evaluator.last_batch < 0) continue;
    evaluations[evaluator.label] = {{"batch", evaluator.last_batch}, {"metrics", JsonOf(evaluator.metrics)}};
  }
  const SumsJson all = {{"train", JsonOf(state.train_metrics)}, {"eval", std::move(evaluations)}};
  return all.dump(-1, ' ', /*ensure_ascii=*/true, SumsJson::error_handler_t::replace);
}

absl::Status RestoreMetrics(absl::string_view text, State& state) {
  const absl::Status unreadable = absl::DataLossError("the checkpoint's metrics cannot be read");
  const SumsJson json = ParseJson(text);
  if (!json.is_object() || !json.contains("train") || !json.contains("eval") || !json["eval"].is_object())
    return unreadable;
  if (!RestoreAll(json["train"], state.train_metrics)) return unreadable;
  for (Evaluator& evaluator : state.evaluators) {
    const auto found = json["eval"].find(evaluator.label);
    if (found == json["eval"].end()) continue;
    if (!found->is_object() || !found->contains("batch") || !(*found)["batch"].is_number_integer() ||
        !found->contains("metrics") || !RestoreAll((*found)["metrics"], evaluator.metrics))
      return unreadable;
    evaluator.last_batch = std::min((*found)["batch"].get<int64_t>(), state.timestamp.batch);
  }
  return absl::OkStatus();
}

}  // namespace composer
