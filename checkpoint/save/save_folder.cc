// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/save_folder.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"

namespace composer {
namespace {

absl::Status CheckNoOtherRunIsAhead(ObjectStore& store, const SaverOptions& options, CheckpointName now) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> committed, CommittedCheckpoints(store));
  if (options.overwrite || committed.empty() || committed.back() <= now) return absl::OkStatus();
  const std::string newest = committed.back().ToString();
  const absl::StatusOr<Manifest> manifest = ReadManifest(store, newest);
  if (!manifest.ok() || manifest->run_name == options.run_name) return absl::OkStatus();  // damaged ones are replaced
  return absl::AlreadyExistsError(
      absl::StrCat(store.Location(newest), " is a checkpoint of run \"", manifest->run_name, "\", and this run, \"",
                   options.run_name, "\", begins at ", now.ToString(),
                   "; choose another save_folder, or replace what is there with save_overwrite: true"));
}

// Writes where DeleteInterrupted finds it when the process dies in between.
absl::Status ProbeWrites(ObjectStore& store, const std::string& run_name) {
  const std::string key = absl::StrCat(AttemptKey(CheckpointName().ToString(), NewAttemptName(run_name)), "/writable");
  RETURN_IF_ERROR(store.PutIfAbsent(key, {"can this run save here?\n"}));
  return store.Delete(key);
}

}  // namespace

absl::Status CheckSaveFolder(ObjectStore& store, RankExchange& exchange, const SaverOptions& options,
                             CheckpointName now, bool probe_writes) {
  absl::Status status;
  if (exchange.rank() == 0) {
    status = CheckNoOtherRunIsAhead(store, options, now);
    if (status.ok() && probe_writes) status = ProbeWrites(store, options.run_name);
  }
  return exchange.Broadcast(status.ok() ? absl::StatusOr<std::string>("") : status).status();
}

}  // namespace composer
