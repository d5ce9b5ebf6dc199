// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/saved_names.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/format/checkpoint_link.h"
#include "checkpoint/format/json_text.h"

namespace composer {
namespace {

constexpr char kTotalLoss[] = "loss/train/total";

// A metric with the name under which it is logged, and whether it was measured at this batch.
struct NamedMetric {
  std::string name;
  const Metric* metric;
  bool is_new;
};

std::vector<NamedMetric> MetricsOf(const State& state) {
  std::vector<NamedMetric> all;
  for (const auto& metric : state.train_metrics)
    all.push_back({absl::StrCat("metrics/train/", metric->name()), metric.get(), true});
  for (const Evaluator& evaluator : state.evaluators) {
    for (const auto& metric : evaluator.metrics) {
      all.push_back({absl::StrCat("metrics/", evaluator.label, "/", metric->name()), metric.get(),
                     evaluator.last_batch == state.timestamp.batch});
    }
  }
  return all;
}

}  // namespace

PlaceholderValues LinkPlaceholders(const std::string& run_name, int world_size, const Timestamp& now) {
  PlaceholderValues values = {{"run_name", run_name},
                              {"world_size", absl::StrCat(world_size)},
                              {"rank", "0"},
                              {"local_rank", "0"},
                              {"node_rank", "0"}};
  const PlaceholderValues times = PlaceholdersOf(now);
  values.insert(values.end(), times.begin(), times.end());
  return values;
}

double ScoreNow(const State& state, absl::string_view monitor) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (monitor == kTotalLoss) return state.timestamp.batch == 0 ? kNone : state.step.loss;
  for (const NamedMetric& known : MetricsOf(state)) {
    if (known.name == monitor) return known.is_new ? known.metric->Compute() : kNone;
  }
  return kNone;
}

absl::Status CheckMonitor(const State& state, absl::string_view monitor) {
  std::vector<std::string> names = {kTotalLoss};
  for (const NamedMetric& known : MetricsOf(state)) names.push_back(known.name);
  for (const std::string& name : names) {
    if (name == monitor) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("save_top_k.monitor: the run has no metric ", monitor,
                                                 DidYouMean(monitor, names), "; it has ", absl::StrJoin(names, ", ")));
}

void AddNames(const SaveOptions& options, const State& state, double score, std::map<std::string, std::string>& small) {
  if (state.identity.rank != 0) return;
  if (!options.save_filename.empty()) {
    const std::string link = FillTemplate(
        options.save_filename, LinkPlaceholders(state.identity.run_name, state.identity.world_size, state.timestamp));
    if (absl::StatusOr<std::string> json = QuoteJson(link); json.ok()) small[kLinkKey] = *std::move(json);
  }
  if (options.save_top_k.has_value() && std::isfinite(score))
    small[kScoreKey] = ScoreJson(options.save_top_k->monitor, score);
}

}  // namespace composer
