// This part of RunCheckpoints decides where a run starts from.
// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/load/complete_choice.h"
#include "checkpoint/load/reader.h"
#include "trainer/resume/checkpoint_exchange.h"
#include "trainer/resume/load_checkpoint.h"
#include "trainer/resume/load_tensors.h"
#include "trainer/resume/run_checkpoints.h"

namespace composer {
namespace {

absl::Status DoesNotFit(const absl::Status& status, const std::string& location, absl::string_view advice) {
  const bool mismatch = status.code() == absl::StatusCode::kFailedPrecondition;
  return Annotate(status, absl::StrCat("cannot resume from ", location, mismatch ? advice : ""));
}

}  // namespace

absl::StatusOr<CheckpointChoice> RunCheckpoints::Choose(std::optional<CheckpointName> before) {
  const VerifyDepth depth = verifies_first_ ? VerifyDepth::kEverything : VerifyDepth::kFrame;
  ASSIGN_OR_RETURN(CheckpointChoice choice, options_.best_effort
                                                ? ChooseComplete(*folder_, exchange_)
                                                : ChooseCheckpoint(*folder_, exchange_, depth, before));
  if (communicator_.rank() == 0) {
    for (const std::string& reason : choice.refused) LOG(WARNING) << "checkpoint refused: " << reason;
  }
  return choice;
}

absl::StatusOr<std::optional<CheckpointName>> RunCheckpoints::Newest() {
  if (!choice_.has_value()) {
    choice_.emplace();
    if (folder_ != nullptr && options_.autoresume) {
      ASSIGN_OR_RETURN(choice_, Choose(std::nullopt));
    }
  }
  return CheckpointName::Parse(choice_->checkpoint);
}

absl::StatusOr<CheckpointRequirements> RunCheckpoints::NewestRequirements() {
  ASSIGN_OR_RETURN(const std::optional<CheckpointName> newest, Newest());
  if (!newest.has_value()) return CheckpointRequirements{};
  return ReadRequirements(*folder_, newest->ToString(), exchange_);
}

absl::StatusOr<CheckpointRequirements> RunCheckpoints::Requirements(const LoadOptions& load) {
  ASSIGN_OR_RETURN(const std::optional<CheckpointName> newest, Newest());
  if (newest.has_value()) return NewestRequirements();
  return load.load_path.empty() ? CheckpointRequirements{} : RequirementsOfPath(load, exchange_);
}

absl::Status RunCheckpoints::KeepFirstState(const State& state) {
  if (options_.best_effort || first_state_.has_value() || verifies_first_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<CheckpointName> newest, Newest());
  if (!newest.has_value()) return absl::OkStatus();
  first_state_ = FirstState::Copy(state, FirstStateLimit(communicator_.world_size()));
  const absl::Status kept = AgreeOn(
      exchange_, first_state_.has_value() ? absl::OkStatus() : absl::ResourceExhaustedError("no memory for a copy"));
  if (kept.ok()) return absl::OkStatus();
  if (!absl::IsResourceExhausted(kept)) return kept;
  first_state_.reset();
  verifies_first_ = true;
  choice_.reset();  // it is chosen again by all of its bytes
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> RunCheckpoints::Resume(State& state, SavedDataSettings& data) {
  RETURN_IF_ERROR(KeepFirstState(state));
  ASSIGN_OR_RETURN(const std::optional<CheckpointName> newest, Newest());
  if (!newest.has_value()) return std::string();
  bool damaged = false;
  absl::Status loaded = Load(newest->ToString(), state, data, &damaged);
  if (options_.best_effort) loaded = AgreeOn(exchange_, loaded);
  if (damaged) {
    RETURN_IF_ERROR(Refuse(loaded, state));
    return std::nullopt;
  }
  RETURN_IF_ERROR(loaded);
  first_state_.reset();
  last_saved_ = newest;
  return last_location_ = folder_->Location(newest->ToString());
}

absl::Status RunCheckpoints::Refuse(const absl::Status& damage, State& state) {
  if (communicator_.rank() == 0) LOG(WARNING) << "checkpoint refused: " << damage.message();
  ASSIGN_OR_RETURN(const std::optional<CheckpointName> newest, Newest());
  ASSIGN_OR_RETURN(choice_, Choose(newest));
  return choice_->checkpoint.empty() ? first_state_->Restore(state) : absl::OkStatus();
}

// Makes the reason that one rank has found every rank's; "" if there is none.
absl::StatusOr<std::string> RunCheckpoints::AgreeOnDamage(const absl::Status& own) {
  const bool damage = absl::IsDataLoss(own) || absl::IsNotFound(own) || absl::IsOutOfRange(own);
  const auto all = exchange_.Gather(damage ? Printable(own.message()) : "");
  absl::StatusOr<std::string> first = "";
  if (all.ok()) {
    for (const std::string& reason : *all) first = first->empty() ? reason : *first;
  } else {
    first = all.status();
  }
  return exchange_.Broadcast(std::move(first));
}

absl::Status RunCheckpoints::Load(const std::string& checkpoint, State& state, SavedDataSettings& data, bool* damaged) {
  const std::string location = folder_->Location(checkpoint);
  SharingDecision sharing;  // each rank reads for itself from a place that may disappear
  if (!options_.best_effort) {
    ASSIGN_OR_RETURN(sharing, AgreeOnSharing(exchange_, IsRemotePlace(options_.save_folder)));
  }
  CommunicatorExchange bytes(communicator_);
  absl::Status refused;
  const auto inspect = [&](const Manifest& manifest) {
    if (options_.on_resume == nullptr) return absl::OkStatus();
    const auto configuration = manifest.small.find(kConfigurationKey);
    return refused = options_.on_resume(
               {location, manifest.saved_at, configuration == manifest.small.end() ? "" : configuration->second});
  };
  absl::StatusOr<StateDict> loaded =
      LoadTensors(*folder_, checkpoint, {}, {}, sharing.share ? &bytes : nullptr, state, inspect);
  if (first_state_.has_value()) {
    ASSIGN_OR_RETURN(const std::string damage, AgreeOnDamage(loaded.status()));
    *damaged = !damage.empty();
    if (*damaged) return absl::DataLossError(damage);
  }
  RETURN_IF_ERROR(refused);
  RETURN_IF_ERROR(DoesNotFit(loaded.status(), location,
                             " (another model or optimizer? use another run_name, or autoresume: false)"));
  const StateDict& dict = *loaded;
  if (dict.small.count("timestamp") == 0 || dict.small.count("data") == 0)
    return absl::DataLossError(absl::StrCat("cannot resume from ", location, ": it has no timestamp or data settings"));
  return Annotate(RestoreSmallState(dict.small, {}, state, data), location);
}

absl::StatusOr<std::string> RunCheckpoints::LoadFrom(const LoadOptions& load, State& state, SavedDataSettings& data) {
  if (load.load_path.empty()) return "";
  CommunicatorExchange bytes(communicator_);
  return LoadFromPath(load, exchange_, state, data, &bytes);
}

}  // namespace composer
