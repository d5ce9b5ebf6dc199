// This part of Trainer changes the model before anything else is made from it: by the run's algorithms, and by those
// that its checkpoint was made with.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/random.h"
#include "trainer/init/amp_fp8.h"
#include "trainer/init/change_model.h"
#include "trainer/optim/matrix/sharded_matrices.h"
#include "trainer/optim/own_algorithm.h"
#include "trainer/optim/recipes.h"
#include "trainer/optim/take_state.h"
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
  // Last, so that what algorithms put into the model computes in 8 bits, too.
  if (options_.precision == Precision::kAmpFp8)
    options_.algorithms.push_back(std::make_unique<AmpFp8>(options_.precision_config, *communicator_));
  state_.algorithms = std::move(options_.algorithms);
  if (state_.algorithms.empty()) return absl::OkStatus();
  const std::vector<Algorithm*> changers = OrderOfChanges(state_.algorithms, options_.engine.algorithm_passes);
  const ModelContext context{options_.precision, options_.device, options_.layer_policies};
  // A layer plan is applied to the changed model.
  const int tensor_parallel_degree = options_.layer_plan.empty() ? options_.tensor_parallel_degree : 1;
  if (options_.make_model == nullptr) {
    SeedForConstruction(options_.seed);
    return composer::ChangeModel(options_.model, changers, context, tensor_parallel_degree);
  }
  options_.make_model = WithChanges(std::move(options_.make_model), changers, context, tensor_parallel_degree);
  return absl::OkStatus();
}

std::unique_ptr<Optimizer> Trainer::MakeOptimizer() {
  std::unique_ptr<Optimizer> optimizer =
      (default_optimizer_ ? DecoupledSGDW(0.1) : options_.make_optimizer)(*state_.model);
  auto* const sharded = dynamic_cast<ShardedOptimizer*>(optimizer.get());
  if (sharded != nullptr && state_.sharding != nullptr) sharded->UseSharding(*state_.sharding);
  auto* const with_algorithm = dynamic_cast<OptimizerWithAlgorithm*>(optimizer.get());
  if (with_algorithm != nullptr) with_algorithm->JoinRun(state_.algorithms);
  for (const auto& algorithm : state_.algorithms) optimizer = algorithm->WrapOptimizer(std::move(optimizer), state_);
  return optimizer;
}

namespace {

using ParameterList = torch::OrderedDict<std::string, at::Tensor>;

struct ParameterChange {
  std::string name;  // "": none
  const char* how = "";
};

ParameterChange FirstChange(const ParameterList& before, const ParameterList& now) {
  for (const auto& item : now) {
    const at::Tensor* old = before.find(item.key());
    if (old == nullptr) return {item.key(), "added"};
    if (!old->is_same(item.value())) return {item.key(), "replaced"};
  }
  for (const auto& item : before) {
    if (!now.contains(item.key())) return {item.key(), "removed"};
  }
  return {};
}

absl::Status Refused(const ParameterChange& change, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter ", change.name, " was ", change.how, " after the optimizer was made, ", why,
      "; algorithms change the model's parameters in ", "Algorithm::ChangeModel (trainer/core/callback.h)"));
}

bool Contains(const ParameterList& list, const at::Tensor& param) {
  return std::any_of(list.begin(), list.end(), [&](const auto& item) { return item.value().is_same(param); });
}

}  // namespace

absl::Status Trainer::FollowParameters() {
  const NamedParameterList now = state_.model->named_parameters();
  const ParameterChange change = FirstChange(known_, now);
  if (change.name.empty()) return absl::OkStatus();
  if (state_.sharding != nullptr) return Refused(change, "when each rank had pieces of what was there");
  for (const auto& item : now) {
    if (Contains(known_, item.value())) continue;
    if (item.value().device() != state_.identity.device)
      return Refused({item.key(), "added"}, absl::StrCat("on ", item.value().device().str(), ", and the run is on ",
                                                         state_.identity.device.str()));
    if (communicator_->world_size() > 1) communicator_->Broadcast(item.value().detach(), 0);
  }
  std::unique_ptr<Optimizer> optimizer = MakeOptimizer();
  TakeState(*state_.optimizer, *optimizer);
  state_.optimizer = std::move(optimizer);
  std::vector<at::Tensor> trainable;
  for (const auto& item : now) {
    const bool stays = Contains(known_, item.value());
    const bool was_trainable = std::any_of(trainable_.begin(), trainable_.end(),
                                           [&](const at::Tensor& param) { return param.is_same(item.value()); });
    if (stays ? was_trainable : item.value().requires_grad()) trainable.push_back(item.value());
  }
  known_ = now;
  trainable_ = std::move(trainable);
  return absl::OkStatus();
}

// The loop's buckets of gradients are those of the parameters that were there when it was made.
absl::Status Trainer::CheckParameters() const {
  const ParameterChange change = FirstChange(known_, state_.model->named_parameters());
  if (change.name.empty()) return absl::OkStatus();
  return Refused(change, "and after AFTER_LOAD, so it would not be trained");
}

}  // namespace composer
