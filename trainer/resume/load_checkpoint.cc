// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/load_checkpoint.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/format/checkpoint_place.h"
#include "checkpoint/load/reader.h"
#include "trainer/resume/load_tensors.h"

namespace composer {
namespace {

absl::Status Choose(CheckpointPlace& place, RankExchange& exchange, VerifyDepth depth) {
  if (!place.checkpoint.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const CheckpointChoice choice, ChooseCheckpoint(*place.store, exchange, depth));
  for (const std::string& reason : choice.refused) LOG(WARNING) << "checkpoint refused: " << reason;
  place.checkpoint = choice.checkpoint;
  return choice.checkpoint.empty()
             ? absl::NotFoundError(absl::StrCat("no valid checkpoint in ", place.store->Location("")))
             : absl::OkStatus();
}

LoadSelection SelectionOf(const LoadOptions& load) {
  LoadSelection selection;
  selection.ignore = load.load_ignore_keys.WithoutStatePrefix();
  if (load.load_weights_only) selection.ignore.Add({"optimizer/*"});
  selection.allow_missing = selection.allow_unexpected = !load.load_strict_model_weights;
  return selection;
}

absl::Status AsUserError(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kFailedPrecondition) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(status.message(), " (load_ignore_keys or load_strict_model_weights: false pass over tensors)"));
}

}  // namespace

absl::StatusOr<std::string> LoadFromPath(const LoadOptions& load, RankExchange& exchange, State& state,
                                         SavedDataSettings& data, ByteExchange* bytes) {
  absl::StatusOr<CheckpointPlace> place = FindCheckpointPlace(load.load_path, load.open_store);
  if (!place.ok()) return Annotate(place.status(), "load_path");
  RETURN_IF_ERROR(Annotate(Choose(*place, exchange, VerifyDepth::kEverything), "load_path"));
  if (bytes != nullptr) {
    ASSIGN_OR_RETURN(const SharingDecision sharing, AgreeOnSharing(exchange, IsRemotePlace(load.load_path)));
    if (!sharing.share) bytes = nullptr;
  }
  absl::StatusOr<StateDict> dict = LoadTensors(*place->store, place->checkpoint, SelectionOf(load),
                                               {load.load_exclude_algorithms, load.load_weights_only}, bytes, state);
  if (!dict.ok()) return AsUserError(dict.status());
  const std::string location = place->store->Location(place->checkpoint);
  if (!load.load_weights_only)
    RETURN_IF_ERROR(Annotate(RestoreSmallState(dict->small, load.load_exclude_algorithms, state, data), location));
  return location;
}

// Reads the frames of checkpoints only: if bytes of the newest turn out to be damaged, the one before it is the same
// run's and requires the same.
absl::StatusOr<CheckpointRequirements> RequirementsOfPath(const LoadOptions& load, RankExchange& exchange) {
  absl::StatusOr<CheckpointPlace> place = FindCheckpointPlace(load.load_path, load.open_store);
  if (!place.ok()) return Annotate(place.status(), "load_path");
  RETURN_IF_ERROR(Annotate(Choose(*place, exchange, VerifyDepth::kFrame), "load_path"));
  absl::StatusOr<CheckpointRequirements> required = ReadRequirements(*place->store, place->checkpoint, exchange);
  return required.ok() ? required : Annotate(required.status(), "load_path");
}

absl::Status LoadCheckpointCallback::Run(Event event, State& state, Logger& logger) {
  RankExchange alone;
  SavedDataSettings data;
  return LoadFromPath(load_, alone, state, data).status();
}

}  // namespace composer
