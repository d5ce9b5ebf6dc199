// The moves of a pass: what runs around each unit's forward and backward, and how ranks follow each other's.
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <utility>

#include "trainer/parallel/fsdp/fsdp.h"

namespace composer {

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

}  // namespace composer
