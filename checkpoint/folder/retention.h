// Retention decides which checkpoints to delete after one was committed. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "checkpoint/format/checkpoint_name.h"

namespace composer {

// Returns those of `committed` (in any order) to delete, oldest first, so that the newest `keep` remain, always
// including `just_saved`. keep < 0 keeps all; keep 0 counts as 1. Those newer than just_saved are neither counted nor
// deleted: training fell back behind them, so they were refused, and each is replaced when its step is reached again.
std::vector<CheckpointName> CheckpointsToDelete(std::vector<CheckpointName> committed, CheckpointName just_saved,
                                                int keep);

// A checkpoint may be saved with a score: the value that a metric had then. Its small state has it under this key.
inline constexpr char kScoreKey[] = "score";
std::string ScoreJson(absl::string_view monitor, double value);
// Returns NaN when it has none, or that of another metric.
double ScoreOf(const std::map<std::string, std::string>& small, absl::string_view monitor);

// Says which checkpoints stay besides the newest ones: the best by their scores. count 0: none.
struct KeepBest {
  std::string monitor;
  int count = 0;
  bool less_is_better = false;
};

struct ScoredCheckpoint {
  CheckpointName name;
  double score = std::numeric_limits<double>::quiet_NaN();
};

// As CheckpointsToDelete, but the best stay, too, of equal ones the older; one without a score is never among them.
// keep < 1 counts as 1.
std::vector<CheckpointName> CheckpointsWorseThanBest(std::vector<ScoredCheckpoint> committed, CheckpointName just_saved,
                                                     int keep, const KeepBest& best);

}  // namespace composer
