// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/averaged_weights.h"

#include <torch/types.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

bool HasAverage(const Algorithm& algorithm) {
  return algorithm.name() == "EMA" || algorithm.name() == "SWA" ||
         dynamic_cast<const AveragedWeights*>(&algorithm) != nullptr;
}

std::vector<at::Tensor> Detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.detach());
  return result;
}

}  // namespace

EventSet AveragedWeights::events() const {
  return {Event::kInit,      Event::kFitStart, Event::kBatchEnd,     Event::kEpochEnd,
          Event::kEvalStart, Event::kEvalEnd,  Event::kPredictStart, Event::kPredictEnd};
}

bool AveragedWeights::Match(Event event, const State& state) const {
  switch (event) {
    case Event::kInit:
      return true;
    case Event::kEvalStart:
    case Event::kEvalEnd:
    case Event::kPredictStart:
    case Event::kPredictEnd:
      return has_average();
    default:
      return !trained_.empty() || Wants(event, state);
  }
}

absl::Status AveragedWeights::Apply(Event event, State& state, Logger& /*logger*/) {
  if (event == Event::kInit) {
    for (const auto& other : state.algorithms) {
      if (other.get() != this && HasAverage(*other))
        return absl::InvalidArgumentError(absl::StrCat("algorithms: ", name(), " and ", other->name(),
                                                       " each evaluate and save an average of the weights; a run has "
                                                       "one"));
    }
    Collect(*state.model);
  } else if (event == Event::kEvalStart || event == Event::kPredictStart) {
    UseForInference(true);
  } else {
    UseForInference(false);  // also where an evaluation has failed
    if (event != Event::kEvalEnd && event != Event::kPredictEnd && Wants(event, state)) Advance(event, state);
  }
  return absl::OkStatus();
}

void AveragedWeights::Collect(const Model& model) {
  live_.clear();
  named_.clear();
  absl::flat_hash_map<const void*, size_t> seen;
  const auto collect = [&](const std::string& name, const at::Tensor& tensor, bool is_param) {
    if (!tensor.is_floating_point()) return;
    const auto [it, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), live_.size());
    if (is_new) live_.push_back(tensor);
    named_.push_back({name, it->second, is_param});
  };
  for (const auto& item : model.named_parameters()) collect(item.key(), item.value(), true);
  for (const auto& item : model.named_buffers()) collect(item.key(), item.value(), false);
}

KeptTensor AveragedWeights::Kept(const std::string& name, const at::Tensor& tensor, const Named& of) const {
  return {name, tensor, of.is_param ? live_[of.index] : at::Tensor()};
}

std::vector<KeptTensor> AveragedWeights::tensors() const {
  std::vector<KeptTensor> result;
  if (!has_average()) return result;
  const torch::NoGradGuard no_grad;
  const bool in_use = !trained_.empty();
  const std::vector<at::Tensor> other = in_use ? trained_ : Averages();
  for (const Named& tensor : named_) {
    result.push_back(Kept(tensor.name, other[tensor.index], tensor));
    result.back().stands_for_model = !in_use;
  }
  for (KeptTensor& own : OwnTensors()) result.push_back(std::move(own));
  return result;
}

void AveragedWeights::UseForInference(bool on) {
  const bool in_use = !trained_.empty();
  if (on == in_use || !has_average()) return;
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> live = Detached(live_);
  if (on) {
    const std::vector<at::Tensor> averages = Averages();
    for (const at::Tensor& tensor : live) trained_.push_back(tensor.clone());
    at::_foreach_copy_(live, averages);
  } else {
    at::_foreach_copy_(live, trained_);
    trained_.clear();
  }
}

}  // namespace composer
