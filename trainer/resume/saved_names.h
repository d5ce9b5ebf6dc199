// What a checkpoint is called and how good it is, besides its folder's name: its link (SaveOptions::save_filename) and
// its score (SaveOptions::save_top_k).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/name_template.h"
#include "trainer/core/state.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// Returns the placeholders of a link: run_name, world_size, rank, local_rank and node_rank, which are 0, and those of
// the time.
PlaceholderValues LinkPlaceholders(const std::string& run_name, int world_size, const Timestamp& now);

// Returns the value that the metric has at this very batch; NaN when it was not measured there. Equal on all ranks.
double ScoreNow(const State& state, absl::string_view monitor);
// Returns kInvalidArgument that lists the metrics, unless the run has this one.
absl::Status CheckMonitor(const State& state, absl::string_view monitor);

// Adds both to the small state of a checkpoint; `score` is ScoreNow of the metric that save_top_k names.
void AddNames(const SaveOptions& options, const State& state, double score, std::map<std::string, std::string>& small);

}  // namespace composer
