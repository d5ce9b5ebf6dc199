// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/fsdp.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "trainer/core/torch_status.h"

namespace composer {

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
  if (queues_) pass_order_.BeginDigest();
}

void Fsdp::BeginPass() {
  TORCH_CHECK(in_step_ && !in_pass_ && pass_ + 1 < passes_, "fsdp: pass ", pass_ + 2, " of a step of ", passes_);
  ++pass_;
  in_pass_ = true;
  made_backward_ = false;
  open_.reset();
  first_forwards_.clear();
  pass_order_.Begin(PassOrder::Pass::kTraining, units_.size());
  for (Unit& unit : units_) {
    unit.calls_pending = 0;
    unit.forward_done = unit.backward_begun = unit.reduced = false;
  }
  Unshard(units_[0]);
}

void Fsdp::Make(PassOrder::Move move) {
  const bool asks = (in_pass_ || in_forward_) && ranks_.world->world_size() > 1;
  if (asks) pass_order_.Make(move, [this](size_t u) { return units_[u].name; });
  open_ = move;
}

void Fsdp::Do(PassOrder::Move move) {
  switch (move.kind) {
    case PassOrder::Kind::kForward:
      Forward(move.unit);
      LeaveForward(move.unit);
      return;
    case PassOrder::Kind::kBackward:
      return Backward(move.unit);
    case PassOrder::Kind::kReduce:
      return Reduce(move.unit);
  }
}

void Fsdp::Follow(bool whole) {
  if (open_) Do(*std::exchange(open_, std::nullopt));
  if (ranks_.world->world_size() == 1 || order_.empty()) return;
  while (const auto move = pass_order_.Follow(whole, [this](size_t u) { return units_[u].name; })) Do(*move);
}

void Fsdp::ForwardBegin(size_t u) {
  Make({PassOrder::Kind::kForward, u});
  Forward(u);
}

void Fsdp::Forward(size_t u) {
  Unit& unit = units_[u];
  Unshard(unit);
  if (options_.forward_prefetch && !unit.forward_done) Prefetch(u, 1, options_.forward_prefetch_limit);
}

void Fsdp::ForwardEnd(size_t u, const at::Tensor& output) {
  Unit& unit = units_[u];
  if (in_pass_ && at::GradMode::is_enabled() && output.requires_grad()) {
    ++unit.calls_pending;
    output.register_hook([this, u](const at::Tensor&) {
      --units_[u].calls_pending;
      BackwardBegin(u);
    });
  }
  LeaveForward(u);
  open_.reset();
}

void Fsdp::LeaveForward(size_t u) {
  if (in_pass_ && !units_[u].forward_done) first_forwards_.push_back(u);
  units_[u].forward_done = true;
  if (!keeps_whole() && !is_whole_) Reshard(units_[u]);
}

void Fsdp::BackwardBegin(size_t u) {
  Unit& unit = units_[u];
  TORCH_CHECK(in_pass_, "fsdp: backward through block ", unit.name, " outside of a training step");
  if (!unit.backward_begun) ReduceBegun();
  made_backward_ = true;
  Make({PassOrder::Kind::kBackward, u});
  Backward(u);
  open_.reset();
}

void Fsdp::Backward(size_t u) {
  units_[u].backward_begun = true;
  Unshard(units_[u]);
  if (options_.backward_prefetch == BackwardPrefetch::kPre) Prefetch(u, -1, options_.backward_prefetch_limit);
}

void Fsdp::OnGradient(size_t u, size_t s, size_t param) {
  if (!in_pass_) return;
  Unit& unit = units_[u];
  TORCH_CHECK(!unit.reduced, "fsdp: a gradient of ", unit.shards[s]->layout().params[param].name,
              " came after the block's backward was over; is a parameter of block ", unit.name,
              " used outside of it? Use it in the block's own forward only, or share it with the rest of the model by "
              "registering it there too");
  if (in_flight_ == &unit) FinishReduceInFlight();  // the root's reduce-scatter of the previous pass
  unit.shards[s]->TakeGradient(param);
  if (unit.module == nullptr || unit.calls_pending > 0 || !unit.backward_begun) return;
  for (const auto& shard : unit.shards) {
    if (shard->trainable() && !shard->HasAllGradients()) return;
  }
  // Frozen parameters may still be needed for the gradient of the input.
  if (!unit.all_trainable) return;
  Make({PassOrder::Kind::kReduce, u});
  Reduce(u);
  open_.reset();
}

void Fsdp::ReduceBegun() {
  for (size_t i = order_.size(); i-- > 0;) {
    const Unit& unit = units_[order_[i]];
    if (!unit.backward_begun || unit.reduced || unit.calls_pending > 0) continue;
    Make({PassOrder::Kind::kReduce, order_[i]});
    Reduce(order_[i]);
    open_.reset();
  }
}

void Fsdp::StartReduce(Unit& unit, const at::Tensor& tail) {
  FinishReduceInFlight();
  for (const auto& shard : unit.shards) {
    if (!shard->trainable()) continue;
    const bool has_tail = tail.defined() && &shard == &unit.shards[0];
    shard->StartReduce(check_, has_tail ? tail : at::Tensor(), has_tail ? device_tail_ : DeviceTail());
  }
  if (tail.defined()) device_tail_ = {};
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

void Fsdp::EndPass() { EndPass(made_backward_); }

void Fsdp::EndPass(bool whole) {
  if (!in_pass_) return;
  const torch::NoGradGuard no_grad;
  Follow(whole);
  DoRest();
  in_pass_ = false;
  if (!is_last_pass()) StartReduce(units_[0], {});
}

void Fsdp::DoRest() {
  for (Unit& unit : units_) unit.calls_pending = 0;
  const auto make = [this](PassOrder::Move move) {
    pass_order_.MakeUnasked(move);
    Do(move);
  };
  for (const size_t u : order_) {
    if (!units_[u].forward_done) make({PassOrder::Kind::kForward, u});
  }
  for (size_t i = order_.size(); i-- > 0;) {
    const size_t u = order_[i];
    if (!units_[u].backward_begun) make({PassOrder::Kind::kBackward, u});
    if (!units_[u].reduced) make({PassOrder::Kind::kReduce, u});
  }
  if (first_forwards_ == order_) return;
  order_ = std::move(first_forwards_);
  for (size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
}

void Fsdp::Finish() {
  const at::Tensor sums = QueueFinish().numbers;
  at::from_blob(tail_.data(), {sums.numel()}, at::kFloat).copy_(sums);
  TakeTail();
}

GradientSync::QueuedSums Fsdp::QueueFinish() {
  EndPass(/*whole=*/false);
  while (!is_last_pass()) {
    BeginPass();
    EndPass(/*whole=*/false);
  }
  digest_ = {static_cast<float>(pass_order_.digest() & 0xfff), static_cast<float>(pass_order_.digest() >> 12)};
  float* const own = tail_.data() + tail().size();
  own[0] = 1;
  own[1] = digest_[0];
  own[2] = digest_[1];
  own[3] = 0;
  StartReduce(units_[0], host_tail_);
  for (Unit& unit : units_) Reshard(unit);
  FinishReduceInFlight();
  for (const Unit& unit : units_) {
    for (const auto& shard : unit.shards) {
      if (shard->trainable()) shard->ExposeGradients();
    }
  }
  in_step_ = false;
  check_.Reset();
  return {units_[0].shards[0]->tail_sums(), static_cast<int64_t>(tail_.size()) - 1};
}

void Fsdp::TakeQueued(absl::Span<const double> numbers) {
  std::copy(numbers.begin(), numbers.end(), tail_.begin());
  TakeTail();
}

void Fsdp::SendAgain(absl::Span<const float> sent) {
  std::copy(sent.begin(), sent.end(), tail_.begin());
  const float* const own = tail_.data() + tail().size();
  digest_ = {own[1], own[2]};
}

void Fsdp::TakeTail() {
  finite_ = tail_.back() == 0;
  CheckSameOrder();
}

void Fsdp::CheckSameOrder() {
  const float* const sums = tail_.data() + tail().size();
  if (sums[1] == sums[0] * digest_[0] && sums[2] == sums[0] * digest_[1]) return;
  throw StatusError(absl::InternalError(
      "the ranks have run the blocks of the model in different orders, which sharding does not allow: blocks must not "
      "depend on a rank's samples"));
}

int64_t Fsdp::num_collectives_per_step() const {
  int64_t count = 0;
  for (const Unit& unit : units_) {
    const int64_t gathers = unit.module == nullptr || keeps_whole() ? 1 : 2;
    for (const auto& shard : unit.shards) {
      count += shard->whole_bytes() > 0 ? gathers : 0;
      if (shard->trainable()) count += ranks_.replicate == nullptr ? 1 : 2;
    }
  }
  return count;
}

void Fsdp::BeginForward() {
  for (Unit& unit : units_) unit.forward_done = false;
  open_.reset();
  pass_order_.Begin(PassOrder::Pass::kForwardOnly, units_.size());
  in_forward_ = true;
  Unshard(units_[0]);
}

void Fsdp::BeginWhole() {
  BeginForward();
  in_forward_ = false;
  is_whole_ = true;
  for (const size_t u : order_) {
    Unshard(units_[u]);
    if (place_[u] + 1 == order_.size() || !options_.overlap_communication) continue;
    for (const auto& shard : units_[order_[place_[u] + 1]].shards) shard->StartUnshard();
  }
}

void Fsdp::EndForward() {
  if (in_forward_) Follow(/*whole=*/true);
  AbandonForward();
}

void Fsdp::AbandonForward() {
  is_whole_ = in_forward_ = false;
  for (Unit& unit : units_) Reshard(unit);
}

void Fsdp::SkipForward() {
  const torch::NoGradGuard no_grad;
  BeginForward();
  Follow(/*whole=*/false);
  AbandonForward();
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

}  // namespace composer
