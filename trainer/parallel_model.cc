// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel_model.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "base/status_macros.h"
#include "trainer/collectives/broadcast_buffers.h"
#include "trainer/init/deferred_ops.h"
#include "trainer/loop/train_batch.h"
#include "trainer/memory_dry_run.h"
#include "trainer/models/across_ranks.h"
#include "trainer/parallel/tensor/layer_plan.h"
#include "trainer/step_shape.h"

namespace composer {

absl::StatusOr<std::unique_ptr<ParallelModel>> ParallelModel::Make(TrainerOptions& options, Communicator& world) {
  MeshShape shape;
  RETURN_IF_ERROR(
      PlanMesh(options.fsdp ? &*options.fsdp : nullptr, options.tensor_parallel_degree, world.world_size(), shape));
  return std::unique_ptr<ParallelModel>(new ParallelModel(options, world, shape));
}

ParallelModel::ParallelModel(TrainerOptions& options, Communicator& world, const MeshShape& shape)
    : options_(options),
      mesh_(world, shape),
      place_{{shape.shard, shape.replicate}, mesh_.shard().rank(), mesh_.replicate().rank()},
      sharded_(ShardsParameters(options, shape)),
      logs_plan_(options.fsdp && options.fsdp->verbose && world.rank() == 0 && options.train.dataset != nullptr) {
  if (logs_plan_) planned_ = PlanStep(options, world.world_size());  // while there is memory
  if (options.make_model) {
    constructed_ = ConstructModel(options.make_model, options.seed);
    options.model = std::move(constructed_.model);
  }
  if (shape.tensor > 1) Split();
}

std::shared_ptr<Model> ParallelModel::PartOf(const std::shared_ptr<Model>& whole, bool whole_stays) {
  if (options_.layer_plan.empty()) return options_.split_model(*whole, mesh_.tensor());
  std::shared_ptr<Model> part = whole_stays ? options_.make_model() : whole;
  SplitByPlan(*part, options_.layer_plan, mesh_.tensor());
  return part;
}

void ParallelModel::Split() {
  const std::shared_ptr<Model> whole = options_.model;
  if (constructed_.init == nullptr) {
    options_.model = PartOf(whole, /*whole_stays=*/false);
    return;
  }
  auto init = std::make_unique<DeferredInit>(options_.seed);
  try {
    init->Build([&]() -> torch::nn::Module& { return *(options_.model = PartOf(whole, /*whole_stays=*/true)); });
    part_values_ = std::make_unique<PartValues>(*options_.model, whole, std::move(constructed_.init));
    constructed_.init = std::move(init);
  } catch (const c10::ValueError&) {
    throw;  // the model does not split
  } catch (const c10::Error& error) {
    constructed_.init->FillAll();
    constructed_.init.reset();
    const std::string what = error.what_without_backtrace();
    constructed_.whole_because = what.substr(0, what.find('\n'));
    options_.model = PartOf(whole, /*whole_stays=*/false);
  }
}

void ParallelModel::GivePartValues() {
  if (part_values_ == nullptr || sharded_) return;
  for (const at::Tensor& param : options_.model->parameters()) {
    if (part_values_->IsDeferred(param)) ReplaceData(param, part_values_->Values(param).to(options_.device));
  }
}

void ParallelModel::Shard(State& state) {
  constructed_.model = options_.model;
  GivePartValues();
  GiveValues(constructed_, options_.device, sharded_ || part_values_ != nullptr);
  const MeshShape& shape = mesh_.shape();
  if (shape.tensor > 1) {
    tensor_sharding_ = std::make_unique<TensorSharding>(*options_.model, mesh_);
    state.sharding = tensor_sharding_.get();
  }
  if (sharded_) {
    const FirstValues* first = constructed_.init.get();
    if (part_values_ != nullptr) first = part_values_.get();
    const Fsdp::Ranks ranks{&mesh_.data(), &mesh_.shard(), shape.replicate == 1 ? nullptr : &mesh_.replicate()};
    fsdp_ = std::make_unique<Fsdp>(*options_.model, ranks, *options_.fsdp, TrainBatch::TailLength(state), first);
    if (options_.virtual_shards != 0) fsdp_->SumPassesInTreeOrder();
    if (tensor_sharding_ == nullptr) {
      state.sharding = fsdp_.get();
    } else {
      tensor_sharding_->SetFsdp(fsdp_.get());
    }
  }
  part_values_.reset();
  constructed_.init.reset();
  constructed_.model.reset();
  if (auto* const model = dynamic_cast<AcrossRanks*>(state.model.get())) model->data_ranks = &mesh_.data();
}

void ParallelModel::ShareFirstWeights(const State& state) {
  Communicator& world = mesh_.world();
  if (world.world_size() == 1) return;
  const torch::NoGradGuard no_grad;
  if (fsdp_ == nullptr) {
    for (const at::Tensor& param : options_.model->parameters()) {
      const bool split = tensor_sharding_ != nullptr && tensor_sharding_->IsSplit(param);
      (split ? mesh_.data() : world).Broadcast(param.detach(), 0);
    }
  }
  BroadcastBuffers(state, world);
}

}  // namespace composer
