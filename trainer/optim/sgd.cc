// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/sgd.h"

#include <torch/types.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {

absl::Status Validate(const SgdOptions& options) {
  if (!(options.momentum >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("momentum: ", options.momentum, ", must be >= 0"));
  }
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("nesterov: needs momentum > 0 (is ", options.momentum,
                                                   ") and dampening 0 (is ", options.dampening, ")"));
  }
  return absl::OkStatus();
}

SgdFamily::GroupState::GroupState(const ParamGroup& group, const SgdOptions& options) : active(group) {
  if (options.momentum == 0) return;
  buffers = StateTensors(group);
  if (options.dampening != 0) started = at::zeros({static_cast<int64_t>(group.params.size())}, at::kFloat);
}

SgdFamily::SgdFamily(std::vector<ParamGroup> groups, const SgdOptions& options, SgdDecay decay)
    : Optimizer(std::move(groups)), options_(options), decay_(decay) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  const torch::NoGradGuard no_grad;
  for (ParamGroup& group : groups_) {
    group.momentum = options.momentum;
    state_.push_back(std::make_unique<GroupState>(group, options));
  }
}

void SgdFamily::StepUnless(const at::Tensor& found_inf) {
  if (options_.momentum != 0 && options_.dampening != 0) {
    Optimizer::StepUnless(found_inf);
  } else {
    Update(found_inf);
  }
}

void SgdFamily::Update(const at::Tensor& found_inf) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) UpdateGroup(groups_[i], *state_[i], found_inf);
}

void SgdFamily::UpdateGroup(const ParamGroup& group, GroupState& state, const at::Tensor& found_inf) {
  if (state.active.Refresh()) state.buffers.Select(state.active);
  if (state.active.empty()) return;
  if (decay_ == SgdDecay::kDecoupledFromPeak) {
    const double progress = group.initial_lr != 0 ? group.lr / group.initial_lr : 1;
    state.active.Scale(1 - progress * group.weight_decay, found_inf);
  }
  if (state.started.defined()) {
    UpdateDampened(group, state);
  } else {
    Fused(group, state, state.active.params(), state.active.grads(), state.buffers.active, /*first=*/false, found_inf);
  }
  state.active.Release();
}

// Parameters that have their first update now are updated in a separate call.
void SgdFamily::UpdateDampened(const ParamGroup& group, GroupState& state) {
  float* started = state.started.data_ptr<float>();
  const std::vector<char>& mask = state.active.mask();
  bool all_started = true;
  for (size_t i = 0; i < mask.size(); ++i) all_started &= !mask[i] || started[i] != 0;
  if (all_started) {
    Fused(group, state, state.active.params(), state.active.grads(), state.buffers.active, /*first=*/false, {});
    return;
  }
  for (const bool first : {true, false}) {
    std::vector<at::Tensor> params, grads, buffers;
    for (size_t i = 0, n = 0; i < mask.size(); ++i) {
      if (!mask[i]) continue;
      const size_t position = n++;
      if ((started[i] == 0) != first) continue;
      params.push_back(state.active.params()[position]);
      grads.push_back(state.active.grads()[position]);
      buffers.push_back(state.buffers.active[position]);
    }
    if (!params.empty()) Fused(group, state, params, grads, buffers, first, {});
  }
  for (size_t i = 0; i < mask.size(); ++i) started[i] = mask[i] ? 1 : started[i];
}

void SgdFamily::Fused(const ParamGroup& group, const GroupState& state, at::TensorList params, at::TensorList grads,
                      at::TensorList buffers, bool first, const at::Tensor& found_inf) {
  const auto update = [&](const auto& rate) {
    at::_fused_sgd_(params, grads, buffers, decay_ == SgdDecay::kL2 ? group.weight_decay : 0, group.momentum, rate,
                    options_.dampening, options_.nesterov, /*maximize=*/false, first, /*grad_scale=*/std::nullopt,
                    found_inf.defined() ? std::make_optional(found_inf) : std::nullopt);
  };
  state.rate.defined() ? update(state.rate) : update(group.lr);
}

bool SgdFamily::can_use_device_rates() const {
  const bool decays = std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group.weight_decay; });
  return options_.dampening == 0 && !(decay_ == SgdDecay::kDecoupledFromPeak && decays);
}

void SgdFamily::UseDeviceRates() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const at::Device device = groups_[i].params.empty() ? at::kCPU : groups_[i].params[0].device();
    state_[i]->rate = at::empty({}, at::TensorOptions().dtype(at::kFloat).device(device));
  }
}

void SgdFamily::WriteRates() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) state_[i]->rate.fill_(groups_[i].lr);
}

NamedTensors SgdFamily::state() {
  NamedTensors result;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupState& state = *state_[g];
    if (state.started.defined()) result.emplace_back(absl::StrCat("group", g, "/started"), state.started);
    for (size_t i = 0; i < groups_[g].names.size(); ++i) {
      state.buffers.AppendOne(groups_[g], i, "momentum_buffer", result);
    }
  }
  return result;
}

}  // namespace composer
