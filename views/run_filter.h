// Conditions on runs: `loss/train/total<0.5`, `state=done`, `name=bert-*`, `config.optimizers.lr=0.001`. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "views/read/run_info.h"

namespace composer {

// A run, and its settings by path if they were asked for.
struct ListedRun {
  RunInfo info;
  std::map<std::string, std::string> settings;
};

// A value of a run: its text, and its number if it has one.
struct RunValue {
  std::string text;
  std::optional<double> number;
};
// `key` is name, folder, state, step, epoch, samples, restarts, launches, ranks, started, wall, a metric, or
// config.PATH. nullopt when the run has no such value.
std::optional<RunValue> ValueOf(const ListedRun& run, absl::string_view key);

struct RunCondition {
  std::string key, op, value;  // op: = != < <= > >=

  // Compares numbers where both sides are numbers, else texts, for = and != with the wildcards of fnmatch(3). A run
  // without the value does not hold.
  bool Holds(const ListedRun& run) const;
};
// kInvalidArgument says what a condition looks like.
absl::StatusOr<RunCondition> ParseCondition(absl::string_view text);

// Sorts by the value of `key`, in descending order after a `-`; runs without it come last. Of equal ones, as all are
// without a key, the one with the newest record comes first.
void SortRuns(absl::string_view key, std::vector<ListedRun>& runs);

}  // namespace composer
