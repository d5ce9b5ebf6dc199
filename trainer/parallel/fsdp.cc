// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>

#include "trainer/parallel/shard_units.h"

namespace composer {

// The block's call, between gather and free.
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
    : ranks_(ranks), options_(options), pool_(ranks.shard->device()), tail_(static_cast<size_t>(tail_length)) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) named_.emplace_back(item.key(), item.value());
  const InitialWeights weights(first, *ranks.world, options.sync_module_states);
  for (const ShardUnit& found : FindShardUnits(model, options)) {
    units_.emplace_back();
    units_.back().name = found.name;
    units_.back().block = found.block;
    AddShards(units_.back(), found.params, weights);
    if (found.block != nullptr) order_.push_back(units_.size() - 1);
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

void Fsdp::AddShards(Unit& unit, const NamedParams& params, const InitialWeights& weights) {
  const bool is_root = unit.block == nullptr;
  FlatShard::Options options;
  options.shard = ranks_.shard;
  options.replicate = ranks_.replicate;
  options.param_dtype = options_.param_dtype;
  options.cpu_offload = options_.cpu_offload;
  options.overlap = options_.overlap_communication;
  options.pool = &pool_;
  options.weights = &weights;
  for (const bool trainable : {true, false}) {
    // By dtype, in the order of their first parameter.
    std::vector<std::pair<at::ScalarType, NamedParams>> by_dtype;
    for (const auto& item : params) {
      if (item.second.requires_grad() != trainable) continue;
      const at::ScalarType dtype = item.second.scalar_type();
      auto group = std::find_if(by_dtype.begin(), by_dtype.end(), [&](const auto& g) { return g.first == dtype; });
      if (group == by_dtype.end()) group = by_dtype.insert(by_dtype.end(), {dtype, {}});
      group->second.push_back(item);
    }
    if (is_root && trainable && by_dtype.empty()) by_dtype.push_back({at::kFloat, {}});  // carries the tail
    for (size_t i = 0; i < by_dtype.size(); ++i) {
      const bool has_tail = is_root && trainable && i == 0;
      options.tail_length = has_tail ? static_cast<int64_t>(tail_.size()) : 0;
      options.reduce_dtype = is_root ? at::kFloat : options_.reduce_dtype;
      if (by_dtype[i].first == at::kDouble) options.param_dtype = options.reduce_dtype = at::kDouble;
      unit.shards.push_back(std::make_unique<FlatShard>(by_dtype[i].second, trainable, options));
      unit.all_trainable = unit.all_trainable && trainable;
      options.param_dtype = options_.param_dtype;
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
    if (unit.block == nullptr) continue;
    wrappers_.push_back(std::make_shared<Wrapper>(*this, u));
    unit.block->Wrap(wrappers_.back());
  }
}

void Fsdp::Trace(Tracer* tracer) {
  ranks_.world->set_tracer(tracer);
  ranks_.shard->set_tracer(tracer);
  if (ranks_.replicate != nullptr) ranks_.replicate->set_tracer(tracer);
}

void Fsdp::Unshard(Unit& unit) {
  for (const auto& shard : unit.shards) {
    if (options_.overlap_communication) shard->StartUnshard();
  }
  for (const auto& shard : unit.shards) {
    shard->Unshard();
    Serialize();
  }
}

void Fsdp::Serialize() const {
  if (options_.overlap_communication || device().is_cpu()) return;
  c10::impl::VirtualGuardImpl(device().type()).synchronizeDevice(device().index());
}

void Fsdp::Reshard(Unit& unit) {
  for (const auto& shard : unit.shards) shard->Reshard();
}

void Fsdp::Prefetch(size_t unit, int step, int limit) {
  if (!options_.overlap_communication) return;
  auto place = static_cast<int64_t>(place_[unit]);
  const auto count = static_cast<int64_t>(order_.size());
  for (int i = 0; i < limit || !options_.limit_all_gathers; ++i) {
    place += step;
    if (place < 0 || place >= count) return;
    Unit& next = units_[order_[static_cast<size_t>(place)]];
    if (step > 0 ? next.forward_done : next.reduced) continue;
    for (const auto& shard : next.shards) shard->StartUnshard();
  }
}

void Fsdp::SumPassesInTreeOrder() {
  for (const Unit& unit : units_) {
    for (const auto& shard : unit.shards) shard->SumPassesInTreeOrder();
  }
}

void Fsdp::BeginStep(int64_t passes) {
  passes_ = std::max<int64_t>(passes, 1);
  pass_ = -1;
  in_pass_ = false;
  in_step_ = true;
}

void Fsdp::BeginPass() {
  TORCH_CHECK(in_step_ && !in_pass_ && pass_ + 1 < passes_, "fsdp: pass ", pass_ + 2, " of a step of ", passes_);
  ++pass_;
  in_pass_ = true;
  recorded_.clear();
  for (Unit& unit : units_) {
    unit.calls_pending = 0;
    unit.forward_done = unit.backward_begun = unit.reduced = false;
  }
  Unshard(units_[0]);
}

void Fsdp::ForwardBegin(size_t u) {
  Unit& unit = units_[u];
  if (in_pass_ && !unit.forward_done) recorded_.push_back(u);
  Unshard(unit);
  if (options_.forward_prefetch && !unit.forward_done) Prefetch(u, 1, options_.forward_prefetch_limit);
}

void Fsdp::ForwardEnd(size_t u, const at::Tensor& output) {
  Unit& unit = units_[u];
  unit.forward_done = true;
  if (in_pass_ && at::GradMode::is_enabled() && output.requires_grad()) {
    ++unit.calls_pending;
    output.register_hook([this, u](const at::Tensor&) {
      --units_[u].calls_pending;
      BackwardBegin(u);
    });
  }
  if (!keeps_whole()) Reshard(unit);
}

void Fsdp::BackwardBegin(size_t u) {
  Unit& unit = units_[u];
  TORCH_CHECK(in_pass_, "fsdp: backward through block ", unit.name, " outside of a training step");
  if (!unit.backward_begun) ReduceBegun();
  unit.backward_begun = true;
  Unshard(unit);
  if (options_.backward_prefetch == BackwardPrefetch::kPre) Prefetch(u, -1, options_.backward_prefetch_limit);
}

void Fsdp::OnGradient(size_t u, size_t s, size_t param) {
  if (!in_pass_) return;
  Unit& unit = units_[u];
  TORCH_CHECK(!unit.reduced, "fsdp: a gradient of ", unit.shards[s]->layout().params[param].name,
              " came after the block's backward was over; is a parameter of block ", unit.name,
              " used outside of it? Use it in the block's own forward only, or share it with the rest of the model by "
              "registering it there too");
  if (in_flight_ == &unit) FinishReduceInFlight();  // the root's, of the pass before
  unit.shards[s]->TakeGradient(param);
  if (unit.block == nullptr || unit.calls_pending > 0 || !unit.backward_begun) return;
  for (const auto& shard : unit.shards) {
    if (shard->trainable() && !shard->HasAllGradients()) return;
  }
  // Frozen parameters may still be needed for the gradient of the input.
  if (unit.all_trainable) Reduce(u);
}

void Fsdp::ReduceBegun() {
  for (size_t i = order_.size(); i-- > 0;) {
    const Unit& unit = units_[order_[i]];
    if (unit.backward_begun && !unit.reduced && unit.calls_pending == 0) Reduce(order_[i]);
  }
}

void Fsdp::StartReduce(Unit& unit, absl::Span<const float> tail) {
  FinishReduceInFlight();
  for (const auto& shard : unit.shards) {
    if (shard->trainable()) shard->StartReduce(&shard == &unit.shards[0] ? tail : absl::Span<const float>());
  }
  in_flight_ = &unit;
  in_flight_is_first_ = pass_ == 0;
  in_flight_is_last_ = is_last_pass();
  if (options_.overlap_communication) return;
  FinishReduceInFlight();
  Serialize();
}

void Fsdp::FinishReduceInFlight() {
  if (in_flight_ == nullptr) return;
  for (const auto& shard : in_flight_->shards) {
    if (shard->trainable()) shard->FinishReduce(in_flight_is_first_, in_flight_is_last_);
  }
  in_flight_ = nullptr;
}

void Fsdp::Reduce(size_t u) {
  Unit& unit = units_[u];
  StartReduce(unit, {});
  unit.reduced = true;
  if (!keeps_whole() || is_last_pass()) Reshard(unit);
  if (options_.backward_prefetch == BackwardPrefetch::kPost) Prefetch(u, -1, options_.backward_prefetch_limit);
}

void Fsdp::EndPass() {
  if (!in_pass_) return;
  const torch::NoGradGuard no_grad;
  const std::vector<size_t> order = order_;
  for (const size_t u : order) {
    if (units_[u].forward_done) continue;
    ForwardBegin(u);
    ForwardEnd(u, {});
  }
  for (size_t i = order.size(); i-- > 0;) {
    Unit& unit = units_[order[i]];
    unit.calls_pending = 0;
    if (!unit.backward_begun) BackwardBegin(order[i]);
    if (!unit.reduced) Reduce(order[i]);
  }
  if (recorded_.size() == order_.size() && recorded_ != order_) {
    order_ = recorded_;
    for (size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
  }
  in_pass_ = false;
  if (!is_last_pass()) StartReduce(units_[0], {});
}

void Fsdp::Finish() {
  EndPass();
  while (!is_last_pass()) {
    BeginPass();
    EndPass();
  }
  StartReduce(units_[0], tail_);
  for (Unit& unit : units_) Reshard(unit);
  FinishReduceInFlight();
  for (const Unit& unit : units_) {
    for (const auto& shard : unit.shards) {
      if (!shard->trainable()) continue;
      const bool has_tail = &unit == &units_[0] && &shard == &unit.shards[0];
      shard->ExposeGradients(has_tail ? absl::MakeSpan(tail_) : absl::Span<float>());
    }
  }
  in_step_ = false;
}

int64_t Fsdp::num_collectives_per_step() const {
  int64_t count = 0;
  for (const Unit& unit : units_) {
    const int64_t gathers = unit.block == nullptr || keeps_whole() ? 1 : 2;
    for (const auto& shard : unit.shards) {
      count += shard->whole_bytes() > 0 ? gathers : 0;
      if (shard->trainable()) count += ranks_.replicate == nullptr ? 1 : 2;
    }
  }
  return count;
}

void Fsdp::BeginForward() {
  for (Unit& unit : units_) unit.forward_done = false;
  Unshard(units_[0]);
}

void Fsdp::EndForward() {
  for (Unit& unit : units_) Reshard(unit);
}

void Fsdp::SkipForward() {
  BeginForward();
  for (const size_t u : order_) {
    ForwardBegin(u);
    ForwardEnd(u, {});
  }
  EndForward();
}

const ModelSharding::Piece* Fsdp::Find(const at::Tensor& param) const {
  const auto it = pieces_.find(param.unsafeGetTensorImpl());
  return it == pieces_.end() ? nullptr : &it->second;
}

std::vector<std::pair<std::string, at::Tensor>> Fsdp::WholeParameters() {
  const torch::NoGradGuard no_grad;
  absl::flat_hash_map<const void*, at::Tensor> whole;
  for (Unit& unit : units_) {
    for (const auto& shard : unit.shards) {
      const std::vector<at::Tensor> values = shard->GatherWhole();
      for (size_t i = 0; i < values.size(); ++i) whole[shard->params()[i].unsafeGetTensorImpl()] = values[i];
    }
  }
  NamedParams result;
  for (const auto& [name, param] : named_) result.emplace_back(name, whole.at(param.unsafeGetTensorImpl()));
  return result;
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
