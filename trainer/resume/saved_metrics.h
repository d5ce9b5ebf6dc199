// What metrics have summed up, as a part of a checkpoint (SaveOptions::save_metrics): the train metrics of the last
// batch and those of each evaluation's last run, so that a run that resumes knows them before it measures anything.
// Source: mosaicml composer/core/state.py, train_metrics and eval_metrics in state_dict().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/core/state.h"

namespace composer {

// A checkpoint's small state has them under this key.
inline constexpr char kMetricsKey[] = "metrics";

// Returns JSON: {"train": {name: metric}, "eval": {label: {"batch": n, "metrics": {name: metric}}}}, a metric being
// {"sums": […], "lists": [[…]]}. Waits for a GPU that still has sums.
std::string SavedMetrics(const State& state);

// Restores the metrics that the run still has; others are passed over, as are those whose number of sums or lists is
// another one now. kDataLoss when the text cannot be read.
absl::Status RestoreMetrics(absl::string_view text, State& state);

}  // namespace composer
