// SPDX-License-Identifier: Apache-2.0

#include "base/status_macros.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/tools/commands.h"
#include "checkpoint/tools/prune_plan.h"

namespace composer {
namespace {

constexpr size_t kTimesLookedAt = 4;

absl::StatusOr<FolderUse> UseOf(ObjectStore& store, const std::vector<CheckpointName>& committed) {
  FolderUse use;
  for (auto name = committed.rbegin(); name != committed.rend() && use.saved.size() < kTimesLookedAt; ++name) {
    const absl::StatusOr<Manifest> manifest = ReadManifest(store, name->ToString());
    absl::Time saved;
    if (manifest.ok() && absl::ParseTime(absl::RFC3339_full, manifest->saved_at, &saved, nullptr))
      use.saved.push_back(saved);
  }
  ASSIGN_OR_RETURN(use.unfinished, UnfinishedAttempts(store));
  return use;
}

}  // namespace

absl::StatusOr<int> PruneTool(const std::vector<std::string>& args, const ToolContext& context) {
  int keep = 0;
  bool dry_run = false, force = false;
  const std::vector<Option> options = {
      Valued("keep", "N", "how many of the newest stay", "", IntoInt(&keep, 1, 1 << 30)),
      Switch("dry-run", "say what would be deleted", IntoBool(&dry_run)),
      Switch("force", "also when a run may be saving there", IntoBool(&force))};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(options, args, 1));
  if (keep == 0) return absl::InvalidArgumentError("--keep N is needed: how many of the newest stay");
  ASSIGN_OR_RETURN(const CheckpointPlace place, FindCheckpointFolder(paths[0], context));
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> committed, CommittedCheckpoints(*place.store));
  ASSIGN_OR_RETURN(const FolderUse use, UseOf(*place.store, committed));
  if (const std::string why = WhyInUse(use, context.now); !why.empty() && !dry_run && !force) {
    context.err << "a run may be saving into " << place.store->Location("") << ": " << why
                << ". Nothing is deleted; --force deletes all the same\n";
    return kToolInUse;
  }
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
    if (!dry_run) RETURN_IF_ERROR(DeleteCheckpoint(*place.store, decision.name));
    context.out << (dry_run ? "would delete  " : "deleted ") << location << "\n";
  }
  return kToolDone;
}

}  // namespace composer
