// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/cleanup.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/checkpoint_link.h"

namespace composer {
namespace {

// A StepFolder is what lies in one step's folder, without the data files.
struct StepFolder {
  bool committed = false;
  std::set<std::string> attempts;
  std::vector<std::string> remains;  // beside the manifest
};

std::map<CheckpointName, StepFolder> StepFoldersOf(const std::vector<std::string>& keys) {
  std::map<CheckpointName, StepFolder> steps;
  for (const std::string& key : keys) {
    const std::vector<std::string> parts = absl::StrSplit(key, absl::MaxSplits('/', 2));
    const auto name = CheckpointName::Parse(parts[0]);
    if (!name || parts.size() < 2) continue;
    StepFolder& step = steps[*name];
    if (key == ManifestKey(parts[0])) {
      step.committed = true;
    } else if (parts.size() == 3 && IsAttemptName(parts[1])) {
      step.attempts.insert(parts[1]);
    } else if (IsLeftover(key)) {
      step.remains.push_back(key);
    }
  }
  return steps;
}

// folder: of one step; "": all.
absl::StatusOr<std::map<CheckpointName, StepFolder>> StepFolders(ObjectStore& store, const std::string& folder = "") {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, store.List(folder));
  return StepFoldersOf(keys);
}

absl::Status MayWrite(const CleanupScope& scope) {
  return scope.may_write == nullptr ? absl::OkStatus() : scope.may_write();
}

// Returns the attempt that the step's manifest names now; "" if there is no manifest, nullopt if it cannot be read.
std::optional<std::string> NamedAttempt(ObjectStore& store, const std::string& name) {
  const absl::StatusOr<Manifest> manifest = ReadManifest(store, name);
  if (absl::IsNotFound(manifest.status())) return "";
  return manifest.ok() ? std::optional<std::string>(manifest->attempt) : std::nullopt;
}

// Deletes the attempts of run_name; null means everybody's.
absl::Status DeleteUncommitted(ObjectStore& store, const std::string& name, const StepFolder& step,
                               const std::string* run_name) {
  if (step.committed && step.attempts.size() < 2 && step.remains.empty()) return absl::OkStatus();
  // The manifest is read again, since it may have been committed after the list was made.
  const std::optional<std::string> named = NamedAttempt(store, name);
  if (!named.has_value()) return absl::OkStatus();
  std::vector<std::string> own;
  bool all_own = true;
  for (const std::string& attempt : step.attempts) {
    if (attempt == *named) continue;
    run_name == nullptr || IsAttemptOf(*run_name, attempt) ? own.push_back(attempt) : void(all_own = false);
  }
  if (named->empty() && all_own) return store.DeleteTree(name);
  for (const std::string& attempt : own) RETURN_IF_ERROR(store.DeleteTree(AttemptKey(name, attempt)));
  if (!all_own) return absl::OkStatus();
  for (const std::string& key : step.remains) RETURN_IF_ERROR(store.Delete(key));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CheckpointName>> CommittedCheckpoints(ObjectStore& store) {
  ASSIGN_OR_RETURN(const auto steps, StepFolders(store));
  std::vector<CheckpointName> committed;
  for (const auto& [name, step] : steps) {
    if (step.committed) committed.push_back(name);
  }
  return committed;
}

absl::StatusOr<std::vector<std::string>> UnfinishedAttempts(ObjectStore& store) {
  ASSIGN_OR_RETURN(const auto steps, StepFolders(store));
  std::vector<std::string> unfinished;
  for (const auto& [name, step] : steps) {
    std::string named;
    if (step.committed) {
      const absl::StatusOr<Manifest> manifest = ReadManifest(store, name.ToString());
      if (!manifest.ok()) continue;
      named = manifest->attempt;
    }
    for (const std::string& attempt : step.attempts) {
      if (attempt != named) unfinished.push_back(AttemptKey(name.ToString(), attempt));
    }
  }
  return unfinished;
}

absl::Status DeleteCheckpoint(ObjectStore& store, CheckpointName name) {
  const std::string folder = name.ToString();
  const absl::StatusOr<Manifest> manifest = ReadManifest(store, folder);
  if (manifest.ok()) RETURN_IF_ERROR(DeleteLink(store, manifest->small, name));
  RETURN_IF_ERROR(store.Delete(ManifestKey(folder)));  // deleted first, so that what a crash leaves is not a checkpoint
  if (!manifest.ok()) return store.DeleteTree(folder);
  RETURN_IF_ERROR(store.DeleteTree(AttemptKey(folder, manifest->attempt)));
  ASSIGN_OR_RETURN(const std::vector<std::string> left, store.List(folder));
  return std::all_of(left.begin(), left.end(), IsLeftover) ? store.DeleteTree(folder) : absl::OkStatus();
}

absl::Status DeleteInterrupted(ObjectStore& store, const CleanupScope& scope) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, store.List(""));
  const std::map<CheckpointName, StepFolder> steps = StepFoldersOf(keys);
  RETURN_IF_ERROR(MayWrite(scope));
  for (const std::string& key : keys) {
    if (IsLeftover(key) && !absl::StrContains(key, '/')) RETURN_IF_ERROR(store.Delete(key));
  }
  for (const auto& [name, step] : steps)
    RETURN_IF_ERROR(DeleteUncommitted(store, name.ToString(), step, &scope.run_name));
  return absl::OkStatus();
}

namespace {

// The small states of checkpoints, each read once.
class SmallStates {
 public:
  explicit SmallStates(ObjectStore& store) : store_(store) {}
  // Returns null for a checkpoint without a valid manifest.
  const std::map<std::string, std::string>* Of(CheckpointName name) {
    const auto [place, is_new] = read_.try_emplace(name);
    if (is_new) {
      absl::StatusOr<Manifest> manifest = ReadManifest(store_, name.ToString());
      if (manifest.ok()) place->second = std::move(manifest->small);
    }
    return place->second ? &*place->second : nullptr;
  }

 private:
  ObjectStore& store_;
  std::map<CheckpointName, std::optional<std::map<std::string, std::string>>> read_;
};

// Returns which of these to delete so that the best stay.
std::vector<CheckpointName> WorseThanBest(SmallStates& small, const std::vector<CheckpointName>& committed,
                                          CheckpointName just_saved, int keep, const KeepBest& best) {
  std::vector<ScoredCheckpoint> scored;
  for (const CheckpointName& name : committed) {
    if (name > just_saved) continue;
    if (const auto* state = small.Of(name)) scored.push_back({name, ScoreOf(*state, best.monitor)});
  }
  return CheckpointsWorseThanBest(std::move(scored), just_saved, keep, best);
}

absl::Status DeleteWhole(ObjectStore& store, SmallStates& small, CheckpointName name) {
  if (const auto* state = small.Of(name)) RETURN_IF_ERROR(DeleteLink(store, *state, name));
  RETURN_IF_ERROR(store.Delete(ManifestKey(name.ToString())));
  return store.DeleteTree(name.ToString());
}

}  // namespace

absl::Status DeleteOld(ObjectStore& store, CheckpointName just_saved, int keep, const CleanupScope& scope,
                       const KeepBest& best) {
  // When all stay, the others are not looked at: a save shall take no longer, nor more memory, the more there are.
  const bool all_stay = keep < 0 && best.count == 0;
  ASSIGN_OR_RETURN(const auto steps, StepFolders(store, all_stay ? just_saved.ToString() : ""));
  RETURN_IF_ERROR(MayWrite(scope));
  std::vector<CheckpointName> committed;
  for (const auto& [name, step] : steps) {
    if (step.committed) committed.push_back(name);
    if (name == just_saved && step.attempts.size() > 1)
      RETURN_IF_ERROR(DeleteUncommitted(store, name.ToString(), step, nullptr));
  }
  SmallStates small(store);
  const std::vector<CheckpointName> old = best.count > 0 ? WorseThanBest(small, committed, just_saved, keep, best)
                                                         : CheckpointsToDelete(committed, just_saved, keep);
  for (const CheckpointName& name : old) RETURN_IF_ERROR(DeleteWhole(store, small, name));
  return absl::OkStatus();
}

}  // namespace composer
