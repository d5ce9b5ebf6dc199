// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/saver.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/checkpoint_link.h"
#include "checkpoint/save/writer.h"

namespace composer {
namespace {

void WarnIfError(const absl::Status& status, absl::string_view what) {
  if (!status.ok()) LOG(WARNING) << what << ": " << status.message();
}

}  // namespace

Saver::Saver(ObjectStore& store, RankExchange exchange, SaverOptions options)
    : store_(store), exchange_(std::move(exchange)), options_(std::move(options)) {}

absl::StatusOr<std::vector<int64_t>> Saver::ShardedBytesOfAll(const StateDict& state) {
  if (state.sharded.empty() || !sharded_bytes_.empty()) return sharded_bytes_;
  const auto texts = exchange_.Gather(absl::StrCat(ShardedBytes(state)));
  absl::StatusOr<std::string> joined = "";
  if (texts.ok()) {
    joined = absl::StrJoin(*texts, ",");
  } else {
    joined = texts.status();
  }
  ASSIGN_OR_RETURN(const std::string all, exchange_.Broadcast(std::move(joined)));
  std::vector<int64_t> bytes;
  for (const absl::string_view text : absl::StrSplit(all, ',')) {
    if (!absl::SimpleAtoi(text, &bytes.emplace_back()))
      return absl::InternalError("rank 0's list of shards is not readable");
  }
  return sharded_bytes_ = std::move(bytes);
}

absl::StatusOr<std::string> Saver::Save(const StateDict& state, CheckpointName step, int64_t samples) {
  const absl::StatusOr<std::vector<int64_t>> sharded_bytes = ShardedBytesOfAll(state);
  if (!sharded_bytes.ok())
    return Annotate(sharded_bytes.status(), absl::StrCat("cannot save checkpoint ", step.ToString()));
  const absl::StatusOr<Snapshot> borrowed =
      BorrowState(state, exchange_.rank(), exchange_.world_size(), *sharded_bytes);
  const Snapshot none;
  return SaveSnapshot(borrowed.status(), borrowed.ok() ? *borrowed : none, step, samples);
}

absl::StatusOr<std::string> Saver::SaveSnapshot(const absl::Status& taken, const Snapshot& snapshot,
                                                CheckpointName step, int64_t samples) {
  const bool leads = exchange_.rank() == 0;
  const std::string name = step.ToString();
  const std::string context = absl::StrCat("cannot save checkpoint ", name);
  const absl::StatusOr<std::string> attempt = exchange_.Broadcast(leads ? StartAttempt(step) : "");
  if (!attempt.ok()) return Annotate(attempt.status(), context);
  const std::string attempt_key = AttemptKey(name, *attempt);
  const auto parts = exchange_.Gather(WriteOwnPart(taken, snapshot, attempt_key));
  absl::StatusOr<std::string> location = "";
  if (leads) {
    location =
        !parts.ok()
            ? parts.status()
            : Commit(snapshot.names,
                     {.run_name = options_.run_name, .step = step, .samples = samples, .attempt = *attempt}, *parts);
    // In a launch that was taken over, the other launch's cleanup may have failed the save.
    if (const absl::Status held = location.ok() ? absl::OkStatus() : MayWrite(); !held.ok()) location = held;
    if (!location.ok()) CleanUp();
  }
  location = exchange_.Broadcast(std::move(location));
  if (!location.ok()) return Annotate(location.status(), context);
  if (leads) AfterCommit(step, snapshot.small);
  return location;
}

absl::StatusOr<std::string> Saver::StartAttempt(CheckpointName step) {
  if (step.epoch < 0 || step.batch < 0) return absl::InvalidArgumentError("a negative step");
  RETURN_IF_ERROR(MayWrite());  // before anything is written that another launch would have to clean up
  if (!cleaned_up_) CleanUp();
  return NewAttemptName(options_.run_name);
}

absl::Status Saver::MayWrite() const { return options_.may_write == nullptr ? absl::OkStatus() : options_.may_write(); }

void Saver::CleanUp() {
  const absl::Status status = DeleteInterrupted(store_, {options_.run_name, options_.may_write});
  WarnIfError(status, "cannot clean up after interrupted saves");
  cleaned_up_ = status.ok();
}

absl::StatusOr<std::string> Saver::WriteOwnPart(const absl::Status& taken, const Snapshot& snapshot,
                                                const std::string& attempt_key) try {
  RETURN_IF_ERROR(taken);
  ASSIGN_OR_RETURN(Manifest part, WritePart(store_, attempt_key, exchange_.rank(), snapshot.own));
  part.small = snapshot.small;
  part.attempt = attempt_key.substr(attempt_key.rfind('/') + 1);
  return SerializeManifest(part);
} catch (const std::exception& error) {  // out of memory
  return absl::InternalError(error.what());
}

absl::StatusOr<std::string> Saver::Commit(absl::Span<const std::string> names, Manifest manifest,
                                          absl::Span<const std::string> texts) try {
  std::vector<Manifest> parts;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(Manifest part, ParseManifest(text));
    parts.push_back(std::move(part));
  }
  ASSIGN_OR_RETURN(Manifest merged, MergeParts(std::move(parts), names));
  manifest.saved_at = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", options_.clock->Now(), absl::UTCTimeZone());
  manifest.world_size = exchange_.world_size();
  manifest.files = std::move(merged.files);
  manifest.tensors = std::move(merged.tensors);
  manifest.small = std::move(merged.small);
  RETURN_IF_ERROR(CheckComplete(manifest));
  RETURN_IF_ERROR(CheckFilesAreThere(manifest));
  ASSIGN_OR_RETURN(const std::string text, SerializeManifest(manifest));
  RETURN_IF_ERROR(PutManifest(manifest.step.ToString(), text));
  return store_.Location(manifest.step.ToString());
} catch (const std::exception& error) {  // out of memory
  return absl::InternalError(error.what());
}

// Detects here that a folder is not shared by all nodes, not when a resume needs the files.
absl::Status Saver::CheckFilesAreThere(const Manifest& manifest) {
  for (const FileEntry& file : manifest.files) {
    const std::string key = absl::StrCat(AttemptKey(manifest.step.ToString(), manifest.attempt), "/", file.name);
    const absl::StatusOr<int64_t> size = store_.Size(key);
    if (size.ok() && *size == file.bytes) continue;
    return absl::UnavailableError(absl::StrCat("rank 0 does not see ", store_.Location(key),
                                               " as its rank wrote it: is the folder shared by all nodes?"));
  }
  return absl::OkStatus();
}

absl::Status Saver::PutManifest(const std::string& name, absl::string_view text) {
  RETURN_IF_ERROR(MayWrite());
  const absl::Status created = store_.PutIfAbsent(ManifestKey(name), {text});
  if (created.code() != absl::StatusCode::kAlreadyExists) return created;
  const VerifyResult old = VerifyCheckpoint(store_, name);
  RETURN_IF_ERROR(old.unknown);
  if (!old.problems.empty()) {
    LOG(WARNING) << "replacing the damaged checkpoint " << store_.Location(name) << ": " << old.problems[0].message();
  } else if (!options_.overwrite && old.manifest.run_name != options_.run_name) {
    return absl::AlreadyExistsError(absl::StrCat(store_.Location(name), " is a valid checkpoint of run \"",
                                                 old.manifest.run_name, "\"; save_overwrite: true replaces it"));
  }
  RETURN_IF_ERROR(MayWrite());  // verifying may have taken long
  return store_.Put(ManifestKey(name), {text});
}

// The checkpoint is safe by now, so a failure here is only worth a warning.
void Saver::AfterCommit(CheckpointName step, const std::map<std::string, std::string>& small) {
  WarnIfError(PutLink(store_, small, step), "cannot write the link to the checkpoint");
  if (!options_.latest.empty()) {
    WarnIfError(store_.Put(options_.latest, {absl::StrCat(step.ToString(), "\n")}),
                "cannot write the hint to the newest");
  }
  WarnIfError(DeleteOld(store_, step, options_.keep, {options_.run_name, options_.may_write}, options_.best),
              "cannot delete old checkpoints");
}

}  // namespace composer
