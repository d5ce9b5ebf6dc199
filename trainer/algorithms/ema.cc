// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/ema.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

// The number of elements swapped at a time: small compared with any model, large enough to amortise the cost of a copy.
constexpr int64_t kSwapped = 1 << 18;

void SwapValues(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor flat_a = a.view(-1), flat_b = b.view(-1);
  const at::Tensor scratch = at::empty({std::min(kSwapped, a.numel())}, a.options().requires_grad(false));
  for (int64_t begin = 0; begin < a.numel(); begin += kSwapped) {
    const int64_t size = std::min(kSwapped, a.numel() - begin);
    const at::Tensor part_a = flat_a.narrow(0, begin, size), part_b = flat_b.narrow(0, begin, size);
    const at::Tensor kept = scratch.narrow(0, 0, size);
    kept.copy_(part_a);
    part_a.copy_(part_b);
    part_b.copy_(kept);
  }
}

void SwapAll(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].is_contiguous() && b[i].is_contiguous()) {
      SwapValues(a[i].detach(), b[i]);
    } else {
      const at::Tensor kept = a[i].detach().clone();
      a[i].detach().copy_(b[i]);
      b[i].copy_(kept);
    }
  }
}

}  // namespace

Event Ema::update_event() const {
  return options_.update_interval.unit() == TimeUnit::kBatch ? Event::kBatchEnd : Event::kEpochEnd;
}

EventSet Ema::events() const {
  return {Event::kInit,    Event::kFitStart,     update_event(),    Event::kEvalStart,
          Event::kEvalEnd, Event::kPredictStart, Event::kPredictEnd};
}

bool Ema::Match(Event event, const State& state) const {
  if (event == Event::kInit) return true;
  if (event != update_event()) return has_started();
  const Time& interval = options_.update_interval;
  if (has_started()) return state.timestamp.Get(interval.unit()) % interval.count() == 0;
  return EmaIsDue(options_.ema_start, state.timestamp, state.max_duration);
}

absl::Status Ema::Apply(Event event, State& state, Logger& logger) {
  if (event == Event::kInit) {
    model_ = state.model;
    trained_.clear();
    for (const at::Tensor& param : model_->parameters()) {
      if (param.requires_grad()) trained_.push_back(param);
    }
    const auto same = [&](const auto& other) { return other.get() != this && other->name() == name(); };
    if (std::any_of(state.algorithms.begin(), state.algorithms.end(), same))
      return absl::InvalidArgumentError("ema: a run has one average of its weights; there are two in algorithms");
  } else if (event == update_event()) {
    has_started() ? Update() : Begin();
  } else {
    UseForInference(event == Event::kEvalStart || event == Event::kPredictStart);
  }
  return absl::OkStatus();
}

void Ema::Begin() {
  const torch::NoGradGuard no_grad;
  Stop();
  absl::flat_hash_map<const void*, at::Tensor> seen;  // by the address of the model's tensor
  absl::flat_hash_set<const void*> trained;
  for (const at::Tensor& param : trained_) trained.insert(param.unsafeGetTensorImpl());
  const auto keep = [&](const std::string& name, const at::Tensor& live, bool is_param) {
    at::Tensor& average = seen[live.unsafeGetTensorImpl()];
    if (!average.defined()) {
      average = live.detach().clone();
      const bool is_averaged = live.is_floating_point() || live.is_complex();
      (is_averaged ? live_ : counts_).push_back(live);
      (is_averaged ? averages_ : copies_).push_back(average);
      if (is_averaged) is_trained_.push_back(is_param ? 1 : 0);
    }
    kept_.push_back({name, live, average, is_param});
  };
  for (const auto& item : model_->named_parameters()) {
    if (trained.contains(item.value().unsafeGetTensorImpl())) keep(item.key(), item.value(), true);
  }
  for (const auto& item : model_->named_buffers()) keep(item.key(), item.value(), false);
}

void Ema::Stop() {
  kept_.clear();
  is_trained_.clear();
  for (std::vector<at::Tensor>* tensors : {&live_, &averages_, &counts_, &copies_}) tensors->clear();
}

void Ema::Update() {
  const torch::NoGradGuard no_grad;
  UseForInference(false);
  std::vector<at::Tensor> averages, live;
  for (size_t i = 0; i < live_.size(); ++i) {
    if (IsFrozen(i)) continue;
    averages.push_back(averages_[i]);
    live.push_back(live_[i]);
  }
  if (!live.empty()) at::_foreach_lerp_(averages, live, 1 - options_.smoothing);
  for (size_t i = 0; i < counts_.size(); ++i) copies_[i].copy_(counts_[i]);
}

void Ema::UseForInference(bool on) {
  if (on == in_use_ || !has_started()) return;
  const torch::NoGradGuard no_grad;
  SwapAll(live_, averages_);
  SwapAll(counts_, copies_);
  in_use_ = on;
}

std::vector<KeptTensor> Ema::tensors() const {
  std::vector<KeptTensor> result;
  result.reserve(kept_.size());
  for (const Kept& kept : kept_) {
    result.push_back({kept.name, kept.average, kept.is_param ? kept.live : at::Tensor(), !in_use_});
  }
  return result;
}

std::string Ema::SaveState() const {
  if (!has_started()) return "";
  return nlohmann::json{{"smoothing", options_.smoothing}, {"update_interval", options_.update_interval.ToString()}}
      .dump();
}

absl::Status Ema::PrepareLoad(absl::string_view json) {
  UseForInference(false);
  if (model_ == nullptr && !json.empty())
    return absl::FailedPreconditionError("EMA: a checkpoint with an average cannot be loaded before the end of INIT");
  if (!json.empty() && !ParseJson(json).is_object())
    return absl::DataLossError(absl::StrCat("EMA: its state is no JSON object: ", json.substr(0, 80)));
  json.empty() ? Stop() : Begin();
  return absl::OkStatus();
}

}  // namespace composer
