// This part of Trainer changes the model before anything else is made from it: by the run's algorithms, and by those
// that its checkpoint was made with.
// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/random.h"
#include "trainer/init/change_model.h"
#include "trainer/trainer.h"

namespace composer {

void Trainer::BuildCheckpoints() {
  state_.callbacks = std::move(options_.callbacks);
  for (const SaveOptions& save : options_.checkpoint_savers) {
    auto saver =
        std::make_unique<CheckpointSaver>(save, *communicator_, StoreFor("saver"), *supervision_, save_thread_);
    saver->checkpoints().SetLaunch(options_.launch);
    savers_.push_back(saver.get());
    state_.callbacks.push_back(std::move(saver));
  }
  AddMemoryTier();
  checkpoints_ =
      std::make_unique<RunCheckpoints>(options_.save, *communicator_, StoreFor("run"), *supervision_, save_thread_);
  checkpoints_->SetLaunch(options_.launch);
}

// Asks the checkpoint that the run is going to begin with (Trainer::Start). The snapshots in memory are of the run that
// saves the others, too, and may be newer.
absl::StatusOr<CheckpointRequirements> Trainer::SavedRequirements() {
  RETURN_IF_ERROR(checkpoints_->Open(state_));
  if (memory_ != nullptr) {
    RETURN_IF_ERROR(memory_->Open(state_));
    ASSIGN_OR_RETURN(const std::optional<CheckpointName> durable, checkpoints_->Newest());
    const absl::StatusOr<std::optional<CheckpointName>> snapshot = memory_->Newest();
    if (snapshot.ok() && snapshot->has_value() && (!durable.has_value() || *durable < **snapshot)) {
      absl::StatusOr<CheckpointRequirements> required = memory_->NewestRequirements();
      if (required.ok()) return required;
    }
  }
  return checkpoints_->Requirements(options_.load);
}

absl::Status Trainer::ChangeModel() {
  ASSIGN_OR_RETURN(const CheckpointRequirements required, SavedRequirements());
  ASSIGN_OR_RETURN(const std::vector<std::string> added,
                   AddRequired(required, options_.load.load_exclude_algorithms, options_));
  if (!added.empty() && communicator_->rank() == 0) {
    LOG(WARNING) << "algorithms: " << absl::StrJoin(added, ", ") << " changed the model of checkpoint "
                 << required.location << " and is not in this run's list: added (load_exclude_algorithms: ["
                 << absl::StrJoin(added, ", ") << "] prevents that)";
  }
  if (options_.algorithms.empty()) return absl::OkStatus();
  const std::vector<Algorithm*> changers = OrderOfChanges(options_.algorithms, options_.engine.algorithm_passes);
  const ModelContext context{options_.precision, options_.device};
  const int tensor_parallel_degree = options_.tensor_parallel_degree;
  if (options_.make_model == nullptr) {
    SeedForConstruction(options_.seed);
    return composer::ChangeModel(options_.model, changers, context, tensor_parallel_degree);
  }
  options_.make_model = WithChanges(std::move(options_.make_model), changers, context, tensor_parallel_degree);
  return absl::OkStatus();
}

// The optimizer, the shards and the buckets of gradients know the parameters that were there when they were made. One
// that is put into the model later would never be trained.
absl::Status Trainer::CheckParameters(const NamedParameterList& made) const {
  const NamedParameterList now = state_.model->named_parameters();
  const auto changed = [](const std::string& name, absl::string_view how) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", name, " was ", how,
                     " after the optimizer was made, so it would not be trained; algorithms change ",
                     "the model's parameters in Algorithm::ChangeModel (trainer/core/callback.h)"));
  };
  for (const auto& item : now) {
    const at::Tensor* before = made.find(item.key());
    if (before == nullptr) return changed(item.key(), "added");
    if (!before->is_same(item.value())) return changed(item.key(), "replaced");
  }
  for (const auto& item : made) {
    if (!now.contains(item.key())) return changed(item.key(), "removed");
  }
  return absl::OkStatus();
}

}  // namespace composer
