// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/fsdp.h"

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
