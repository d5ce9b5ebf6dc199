// This part of Fsdp shards a model and wraps its blocks; fsdp.cc runs the steps.
// SPDX-License-Identifier: Apache-2.0
#include <torch/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>

#include "trainer/parallel/fsdp/fsdp.h"
#include "trainer/parallel/fsdp/shard_units.h"

namespace composer {

// Wraps the block's call between gather and free.
class Fsdp::Wrapper final : public BlockWrapper {
 public:
  Wrapper(Fsdp& fsdp, size_t unit) : fsdp_(&fsdp), unit_(unit) {}
  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override {
    TORCH_CHECK(fsdp_ != nullptr, "the model is sharded and its trainer is gone: it cannot be run");
    fsdp_->ForwardBegin(unit_);
    at::Tensor output = inner(inputs);
    fsdp_->ForwardEnd(unit_, output);
    return output;
  }
  void Detach() { fsdp_ = nullptr; }

 private:
  Fsdp* fsdp_;
  size_t unit_;
};

struct Fsdp::Hook final : torch::autograd::PostAccumulateGradHook {
  Hook(Fsdp& owner, size_t unit_index, size_t shard_index, size_t param_index)
      : fsdp(owner), unit(unit_index), shard(shard_index), param(param_index) {}
  void operator()(const at::Tensor& /*param*/) override { fsdp.OnGradient(unit, shard, param); }
  Fsdp& fsdp;
  size_t unit, shard, param;
};

Fsdp::Fsdp(torch::nn::Module& model, const Ranks& ranks, const FsdpOptions& options, int tail_length,
           const FirstValues* first)
    : ranks_(ranks),
      options_(options),
      pool_(ranks.shard->device()),
      host_tail_(torch::zeros({tail_length + static_cast<int64_t>(kOwnTail)},
                              torch::dtype(at::kFloat).pinned_memory(ranks.shard->device().is_cuda()))),
      tail_(host_tail_.data_ptr<float>(), static_cast<size_t>(host_tail_.numel())),
      pass_order_(*ranks.world) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) named_.emplace_back(item.key(), item.value());
  FindKeptInFp32(model);
  const InitialWeights weights(first, *ranks.world, options.sync_module_states);
  for (const ShardUnit& found : FindShardUnits(model, options)) {
    units_.emplace_back();
    units_.back().name = found.name;
    units_.back().module = found.module;
    AddShards(units_.back(), found.params, weights);
    if (found.module != nullptr) order_.push_back(units_.size() - 1);
  }
  place_.resize(units_.size());
  for (size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
  InstallHooks();
}

Fsdp::~Fsdp() {
  for (const auto& wrapper : wrappers_) wrapper->Detach();
  for (const Unit& unit : units_) {
    for (const auto& shard : unit.shards) {
      for (const at::Tensor& param : shard->params()) torch::autograd::impl::set_post_acc_grad_hooks(param, nullptr);
    }
  }
}

void Fsdp::FindKeptInFp32(const torch::nn::Module& model) {
  if (options_.keep_fp32.empty()) return;
  const absl::StatusOr<NamedModules> chosen = ChooseLayers(model, options_.keep_fp32);
  TORCH_CHECK_VALUE(chosen.ok(), "keep_in_fp32: ", std::string(chosen.status().message()));
  for (const auto& [name, module] : *chosen) {
    for (const at::Tensor& param : module->parameters()) keeps_fp32_.insert(param.unsafeGetTensorImpl());
  }
}

void Fsdp::AddShards(Unit& unit, const NamedParams& params, const InitialWeights& weights) {
  const bool is_root = unit.module == nullptr;
  FlatShard::Options options;
  options.shard = ranks_.shard;
  options.replicate = ranks_.replicate;
  options.cpu_offload = options_.cpu_offload;
  options.overlap = options_.overlap_communication;
  options.pool = &pool_;
  options.weights = &weights;
  for (const bool trainable : {true, false}) {
    // The groups are by the dtypes of pieces and of whole parameters, in the order of their first parameter.
    using Types = std::pair<at::ScalarType, at::ScalarType>;
    std::vector<std::pair<Types, NamedParams>> by_dtype;
    for (const auto& item : params) {
      if (item.second.requires_grad() != trainable) continue;
      const at::ScalarType dtype = item.second.scalar_type();
      const bool keeps = keeps_fp32_.contains(item.second.unsafeGetTensorImpl());
      const Types types = {dtype, dtype == at::kDouble ? dtype : keeps ? at::kFloat : options_.param_dtype};
      auto group = std::find_if(by_dtype.begin(), by_dtype.end(), [&](const auto& g) { return g.first == types; });
      if (group == by_dtype.end()) group = by_dtype.insert(by_dtype.end(), {types, {}});
      group->second.push_back(item);
    }
    // Without parameters this shard carries the tail.
    if (is_root && trainable && by_dtype.empty()) by_dtype.push_back({{at::kFloat, options_.param_dtype}, {}});
    for (size_t i = 0; i < by_dtype.size(); ++i) {
      const bool has_tail = is_root && trainable && i == 0;
      options.tail_length = has_tail ? static_cast<int64_t>(tail_.size()) : 0;
      options.reduce_dtype = is_root ? at::kFloat : options_.reduce_dtype;
      options.param_dtype = by_dtype[i].first.second;
      if (options.param_dtype != options_.param_dtype) options.reduce_dtype = options.param_dtype;
      options.unit = last_unit_ = last_unit_ == UINT16_MAX ? 1 : last_unit_ + 1;
      unit.shards.push_back(std::make_unique<FlatShard>(by_dtype[i].second, trainable, options));
      unit.all_trainable = unit.all_trainable && trainable;
    }
  }
}

void Fsdp::InstallHooks() {
  const bool writes = ranks_.replicate == nullptr || ranks_.replicate->rank() == 0;
  for (size_t u = 0; u < units_.size(); ++u) {
    Unit& unit = units_[u];
    for (size_t s = 0; s < unit.shards.size(); ++s) {
      const FlatShard& shard = *unit.shards[s];
      for (size_t p = 0; p < shard.params().size(); ++p) {
        const FlatPiece piece = shard.layout().PieceOf(p, ranks_.shard->rank());
        pieces_[shard.params()[p].unsafeGetTensorImpl()] = {shard.layout().params[p].shape, piece.begin, piece.end,
                                                            writes};
        if (!shard.trainable()) continue;
        torch::autograd::impl::set_post_acc_grad_hooks(shard.params()[p], std::make_unique<Hook>(*this, u, s, p));
      }
    }
    if (unit.module == nullptr) continue;
    wrappers_.push_back(std::make_shared<Wrapper>(*this, u));
    WrapLayer(*unit.module, wrappers_.back());
  }
}

ShardPlan Fsdp::Plan(int64_t optimizer_bytes) const {
  ShardPlan plan{options_, {num_shards(), ranks_.replicate == nullptr ? 1 : ranks_.replicate->world_size()}, {}, 0};
  plan.optimizer_bytes = optimizer_bytes;
  const auto add = [&plan](const Unit& unit) {
    plan.units.push_back({unit.name, {}});
    for (const auto& shard : unit.shards) {
      plan.units.back().shards.push_back(
          {shard->layout().param_numel(), shard->largest_param_bytes(), shard->whole_bytes(), shard->reduce_bytes(),
           static_cast<int64_t>(shard->shard().nbytes()), shard->whole_before_bytes(), shard->making_bytes()});
    }
  };
  add(units_[0]);
  for (const size_t u : order_) add(units_[u]);
  return plan;
}

}  // namespace composer
