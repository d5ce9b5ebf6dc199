// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/cleanup.h"
#include "checkpoint/reader.h"
#include "checkpoint/tools/commands.h"
#include "checkpoint/tools/prune_plan.h"

namespace composer {
namespace {

absl::Status DeleteCheckpoint(ObjectStore& store, const std::string& name) {
  RETURN_IF_ERROR(store.Delete(ManifestKey(name)));  // first: what a crash leaves is no checkpoint
  return store.DeleteTree(name);
}

}  // namespace

absl::StatusOr<int> PruneTool(const std::vector<std::string>& args, const ToolContext& context) {
  int keep = 0;
  bool dry_run = false;
  const std::vector<Option> options = {
      {.name = "keep", .metavar = "N", .help = "how many of the newest stay", .set = IntoInt(&keep, 1, 1 << 30)},
      {.name = "dry-run", .help = "say what would be deleted", .set = IntoBool(&dry_run)}};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(options, args, 1));
  if (keep == 0) return absl::InvalidArgumentError("--keep N is needed: how many of the newest stay");
  ASSIGN_OR_RETURN(const CheckpointPlace place, FindCheckpointFolder(paths[0], context));
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> committed, CommittedCheckpoints(*place.store));
  ASSIGN_OR_RETURN(const CheckpointChoice newest, FindNewestValid(*place.store));
  for (const std::string& reason : newest.refused) context.err << "damaged: " << reason << "\n";
  if (newest.checkpoint.empty() && !committed.empty()) {
    context.err << "none of the " << committed.size() << " checkpoints is valid: nothing is deleted\n";
    return kToolDamaged;
  }
  const auto valid = CheckpointName::Parse(newest.checkpoint);
  for (const PruneDecision& decision : PlanPrune(committed, valid, keep)) {
    const std::string location = place.store->Location(decision.name.ToString());
    if (!decision.deletes) {
      context.out << "keep    " << location << (decision.reason.empty() ? "" : "  ") << decision.reason << "\n";
      continue;
    }
    if (!dry_run) RETURN_IF_ERROR(DeleteCheckpoint(*place.store, decision.name.ToString()));
    context.out << (dry_run ? "would delete  " : "deleted ") << location << "\n";
  }
  return kToolDone;
}

}  // namespace composer
