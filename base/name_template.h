// File names with placeholders, as Composer writes them: "{run_name}/logs-rank{rank}.txt".
// Source: mosaicml composer/utils/file_helpers.py, format_name_with_dist_and_time().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/time.h"

namespace composer {

// A rank's position in its run.
struct RankPlace {
  std::string run_name;
  int rank = 0, local_rank = 0, node_rank = 0;
  int world_size = 1, local_world_size = 1;
};

using PlaceholderValues = std::vector<std::pair<std::string, std::string>>;
// Returns the values of run_name, rank, local_rank, node_rank, world_size and local_world_size.
PlaceholderValues PlaceholdersOf(const RankPlace& place);

// Returns the values of iteration, epoch, batch, sample, token, of the last three in the epoch (batch_in_epoch), and of
// total_wct, iteration_wct, epoch_wct and batch_wct, which are seconds: "12.500".
PlaceholderValues PlaceholdersOf(const Timestamp& now);

// Replaces each {name} that has a value; {name:06} and {name:06d} fill it up with zeros to six digits. Others stay as
// text, and the values themselves are not expanded.
std::string FillTemplate(absl::string_view text, const PlaceholderValues& values);
// Returns whether the text has the placeholder.
bool HasPlaceholder(absl::string_view text, absl::string_view name);
// Returns kInvalidArgument that names the first placeholder of the text that has no value, and those that do.
absl::Status CheckPlaceholders(absl::string_view text, const PlaceholderValues& values);

}  // namespace composer
