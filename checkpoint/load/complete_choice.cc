// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load/complete_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"

namespace composer {
namespace {

absl::Status CheckFilesAreListed(const ObjectStore& store, const Manifest& manifest, const std::string& checkpoint,
                                 const std::vector<std::string>& keys) {
  for (const FileEntry& file : manifest.files) {
    const std::string key = absl::StrCat(AttemptKey(checkpoint, manifest.attempt), "/", file.name);
    if (!std::binary_search(keys.begin(), keys.end(), key))
      return absl::NotFoundError(absl::StrCat(store.Location(key), " is not there"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointChoice> FindNewestComplete(ObjectStore& store) {
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, CommittedCheckpoints(store));
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, store.List(""));
  CheckpointChoice choice;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const std::string checkpoint = name->ToString();
    const absl::StatusOr<Manifest> manifest = ReadManifest(store, checkpoint);
    const absl::Status status =
        manifest.ok() ? CheckFilesAreListed(store, *manifest, checkpoint, keys) : manifest.status();
    if (status.ok()) {
      choice.checkpoint = checkpoint;
      break;
    }
    choice.refused.push_back(std::string(status.message()));
  }
  return choice;
}

absl::StatusOr<CheckpointChoice> ChooseComplete(ObjectStore& store, RankExchange& exchange) {
  CheckpointChoice choice;
  absl::StatusOr<std::string> told = "";
  if (exchange.rank() == 0) {
    absl::StatusOr<CheckpointChoice> found = FindNewestComplete(store);
    told = found.ok() ? absl::StatusOr<std::string>(found->checkpoint) : found.status();
    if (found.ok()) choice = *std::move(found);
  }
  ASSIGN_OR_RETURN(choice.checkpoint, exchange.Broadcast(told));
  return choice;
}

}  // namespace composer
