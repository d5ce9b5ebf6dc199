// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "config/document.h"
#include "config/effective_config.h"
#include "contract/exit_code.h"
#include "views/run_commands.h"
#include "views/run_filter.h"
#include "views/runs_table.h"
#include "views/view_options.h"

namespace composer {
namespace {

constexpr size_t kMaxCompared = 30;

bool IsConfigKey(absl::string_view key) { return absl::StartsWith(absl::StripPrefix(key, "-"), "config."); }

struct Query {
  std::string root;
  RunsOptions options;
  std::vector<RunCondition> conditions;

  // The metrics that must be found even if they are rare.
  std::vector<std::string> Wanted() const {
    std::vector<std::string> names;
    const auto add = [&](absl::string_view name) {
      const bool is_metric = absl::StrContains(name, "/") && !absl::StrContains(name, "*") && !IsConfigKey(name);
      if (is_metric) names.emplace_back(absl::StripPrefix(name, "-"));
    };
    for (const std::string& name : options.metrics) add(name);
    for (const RunCondition& condition : conditions) add(condition.key);
    add(options.sort);
    return names;
  }
  bool NeedsSettings() const {
    return options.compare || IsConfigKey(options.sort) ||
           std::any_of(conditions.begin(), conditions.end(), [](const auto& c) { return IsConfigKey(c.key); });
  }
};

void ReadSettings(ListedRun& run) {
  const auto config = LoadRawConfig({JoinPath(run.info.folder, "config.yaml")}, {});
  if (!config.ok()) return;  // an older run, or a program's
  for (const Setting& setting : ListSettings(*config)) run.settings[setting.path] = setting.value;
}

std::vector<ListedRun> Select(const Query& query) {
  std::vector<ListedRun> runs;
  for (RunInfo& info : ReadRuns(FindRuns(query.root), query.Wanted())) {
    ListedRun run{std::move(info), {}};
    if (query.NeedsSettings()) ReadSettings(run);
    const bool holds =
        std::all_of(query.conditions.begin(), query.conditions.end(), [&](const auto& c) { return c.Holds(run); });
    if (holds) runs.push_back(std::move(run));
  }
  SortRuns(query.options.sort, runs);
  if (query.options.limit > 0) runs.resize(std::min(runs.size(), static_cast<size_t>(query.options.limit)));
  return runs;
}

std::string Render(const Query& query) {
  const std::vector<ListedRun> runs = Select(query);
  if (query.options.json) return RunsJson(runs, query.options.metrics);
  const std::vector<std::string> metrics = MetricColumns(runs, query.options.metrics);
  if (query.options.compare) return ComparisonTable(runs, metrics);
  return RunsTable(runs, metrics, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
}

absl::Status Check(const Query& query) {
  if (!IsDirectory(query.root))
    return absl::NotFoundError(absl::StrCat("there is no folder ", query.root, "; composer runs FOLDER"));
  const size_t count = FindRuns(query.root).size();
  if (count == 0)
    return absl::NotFoundError(
        absl::StrCat("no run is in ", query.root, ": a run has a metrics.jsonl or summary.json"));
  if (query.options.compare && query.options.limit == 0 && Select(query).size() > kMaxCompared)
    return absl::InvalidArgumentError(
        absl::StrCat("--compare shows at most ", kMaxCompared, " runs: choose with --filter or --limit"));
  if (query.options.follow && query.options.json)
    return absl::InvalidArgumentError("--follow and --json exclude each other");
  return absl::OkStatus();
}

int Follow(const Query& query) {
  std::string last;
  while (true) {
    const std::string text = Render(query);
    if (text != last &&
        PrintView(absl::StrCat(isatty(STDOUT_FILENO) != 0 ? "\033[H\033[J" : "", text)) != exit_code::kDone)
      return exit_code::kFailure;
    last = text;
    absl::SleepFor(absl::Seconds(2));
  }
}

}  // namespace

absl::StatusOr<std::string> FindRunFolder(const std::string& given) {
  if (ReadRun(given, {}).ok()) return given;
  const std::string below = JoinPath("runs", given);
  if (!absl::StartsWith(given, "/") && ReadRun(below, {}).ok()) return below;
  std::vector<std::string> names;
  for (const std::string& folder : FindRuns("runs")) names.push_back(BaseName(folder));
  return absl::NotFoundError(absl::StrCat("`", given, "` is not a run folder, nor the name of one in runs/",
                                          DidYouMean(given, names), "; `composer runs` lists them"));
}

int RunsCommand(const std::vector<std::string>& arguments) {
  Query query;
  const ViewCall call =
      ParseView("composer runs [flags] [FOLDER]", "Lists the runs in FOLDER (runs) with their state and last values.",
                RunsFlags(&query.options), arguments);
  if (call.exit_code >= 0) return call.exit_code;
  if (call.words.size() > 1) return ViewError("runs takes one FOLDER");
  query.root = call.words.empty() ? "runs" : call.words[0];
  for (const std::string& text : query.options.filters) {
    const auto condition = ParseCondition(text);
    if (!condition.ok()) return ViewError(absl::StrCat("--filter ", condition.status().message()));
    query.conditions.push_back(*condition);
  }
  if (const absl::Status status = Check(query); !status.ok()) return ViewError(status.message());
  return query.options.follow ? Follow(query) : PrintView(Render(query));
}

}  // namespace composer
