// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/decoupled_sgdw.h"

#include <torch/torch.h>

#include "absl/strings/str_cat.h"

namespace composer {

absl::Status Validate(const SgdwOptions& options) {
  if (!(options.momentum >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("momentum: ", options.momentum, ", must be >= 0"));
  }
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("nesterov: needs momentum > 0 (is ", options.momentum,
                                                   ") and dampening 0 (is ", options.dampening, ")"));
  }
  return absl::OkStatus();
}

DecoupledSGDW::GroupState::GroupState(const ParamGroup& group, bool has_momentum) : active(group) {
  if (!has_momentum) return;
  for (const at::Tensor& param : group.params) all_buffers.push_back(at::zeros_like(param));
  started = at::zeros({static_cast<int64_t>(group.params.size())}, at::kFloat);
}

DecoupledSGDW::DecoupledSGDW(std::vector<ParamGroup> groups, const SgdwOptions& options)
    : Optimizer(std::move(groups)), options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  const torch::NoGradGuard no_grad;
  for (const ParamGroup& group : groups_) state_.push_back(std::make_unique<GroupState>(group, options.momentum != 0));
}

void DecoupledSGDW::Step() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) StepGroup(groups_[i], *state_[i]);
}

void DecoupledSGDW::StepGroup(const ParamGroup& group, GroupState& state) {
  if (state.active.Refresh()) state.buffers = state.active.Select(state.all_buffers);
  if (state.active.empty()) return;
  const double progress = group.initial_lr != 0 ? group.lr / group.initial_lr : 1;
  const double keep = 1 - progress * group.weight_decay;
  if (keep != 1) at::_foreach_mul_(state.active.params(), keep);
  if (options_.momentum == 0) {
    Fused(state.active.params(), state.active.grads(), {}, group.lr, /*first=*/true);
  } else {
    StepWithMomentum(group.lr, state);
  }
  state.active.Release();
}

void DecoupledSGDW::StepWithMomentum(double lr, GroupState& state) {
  float* started = state.started.data_ptr<float>();
  const std::vector<char>& mask = state.active.mask();
  bool all_started = true;
  for (size_t i = 0; i < mask.size(); ++i) all_started &= !mask[i] || started[i] != 0;
  if (all_started) {
    Fused(state.active.params(), state.active.grads(), state.buffers, lr, /*first=*/false);
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
      buffers.push_back(state.buffers[position]);
    }
    if (!params.empty()) Fused(params, grads, buffers, lr, first);
  }
  for (size_t i = 0; i < mask.size(); ++i) started[i] = mask[i] ? 1 : started[i];
}

void DecoupledSGDW::Fused(at::TensorList params, at::TensorList grads, at::TensorList buffers, double lr, bool first) {
  at::_fused_sgd_(params, grads, buffers, /*weight_decay=*/0, options_.momentum, lr, options_.dampening,
                  options_.nesterov, /*maximize=*/false, first);
}

NamedTensors DecoupledSGDW::state() {
  NamedTensors result;
  if (options_.momentum == 0) return result;
  for (size_t g = 0; g < groups_.size(); ++g) {
    result.emplace_back(absl::StrCat("group", g, "/started"), state_[g]->started);
    for (size_t i = 0; i < groups_[g].names.size(); ++i) {
      result.emplace_back(groups_[g].names[i] + "/momentum_buffer", state_[g]->all_buffers[i]);
    }
  }
  return result;
}

}  // namespace composer
