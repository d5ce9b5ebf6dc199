// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/commands.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/tools/weight_names.h"

namespace composer {

absl::StatusOr<CheckpointPlace> FindOneCheckpoint(const std::string& path, const ToolContext& context) {
  ASSIGN_OR_RETURN(CheckpointPlace place, FindCheckpointPlace(path, context.open));
  if (!place.checkpoint.empty()) return place;
  ASSIGN_OR_RETURN(const CheckpointChoice choice, FindNewestValid(*place.store));
  for (const std::string& reason : choice.refused) context.err << "refused: " << reason << "\n";
  if (choice.checkpoint.empty())
    return absl::NotFoundError(absl::StrCat("no valid checkpoint in ", place.store->Location("")));
  place.checkpoint = choice.checkpoint;
  return place;
}

absl::StatusOr<CheckpointPlace> FindCheckpointFolder(const std::string& path, const ToolContext& context) {
  ASSIGN_OR_RETURN(CheckpointPlace place, FindCheckpointPlace(path, context.open));
  if (place.checkpoint.empty()) return place;
  return absl::InvalidArgumentError(absl::StrCat(path, " is one checkpoint; the folder of them is wanted"));
}

Option RenameOption(std::vector<RenameRule>* rules) {
  return {
      .name = "rename",
      .metavar = "FROM=TO",
      .help =
          "names that begin with FROM begin with TO instead; may be given more than once, the first that fits counts",
      .set = [rules](absl::string_view text) -> absl::Status {
        ASSIGN_OR_RETURN(RenameRule rule, ParseRenameRule(text));
        rules->push_back(std::move(rule));
        return absl::OkStatus();
      }};
}

std::string Counted(size_t count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string HumanBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace composer
