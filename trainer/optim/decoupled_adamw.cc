// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/decoupled_adamw.h"

#include <torch/torch.h>

#include "absl/strings/str_cat.h"

namespace composer {

absl::Status Validate(const AdamWOptions& options) {
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  if (!fraction(options.beta1) || !fraction(options.beta2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("betas: (", options.beta1, ", ", options.beta2, "), allowed are numbers in [0, 1)"));
  }
  if (!(options.eps >= 0)) return absl::InvalidArgumentError(absl::StrCat("eps: ", options.eps, ", must be >= 0"));
  return absl::OkStatus();
}

DecoupledAdamW::GroupState::GroupState(const ParamGroup& group, bool amsgrad) : active(group) {
  for (const at::Tensor& param : group.params) {
    all.exp_avg.push_back(at::zeros_like(param));
    all.exp_avg_sq.push_back(at::zeros_like(param));
    if (amsgrad) all.max_exp_avg_sq.push_back(at::zeros_like(param));
  }
  const auto count = static_cast<int64_t>(group.params.size());
  const auto device = count > 0 ? group.params[0].device() : at::Device(at::kCPU);
  steps = at::zeros({count}, at::TensorOptions().dtype(at::kFloat).device(device));
  increment = at::zeros_like(steps);
  for (int64_t i = 0; i < count; ++i) all.step.push_back(steps.select(0, i));
}

DecoupledAdamW::DecoupledAdamW(std::vector<ParamGroup> groups, const AdamWOptions& options)
    : Optimizer(std::move(groups)), options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  const torch::NoGradGuard no_grad;
  for (const ParamGroup& group : groups_) state_.push_back(std::make_unique<GroupState>(group, options.amsgrad));
}

void DecoupledAdamW::Step() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) StepGroup(groups_[i], *state_[i]);
}

void DecoupledAdamW::StepGroup(const ParamGroup& group, GroupState& state) {
  if (state.active.Refresh()) {
    const Moments& all = state.all;
    state.selected = {state.active.Select(all.exp_avg), state.active.Select(all.exp_avg_sq),
                      state.active.Select(all.max_exp_avg_sq), state.active.Select(all.step)};
    const std::vector<char>& mask = state.active.mask();
    state.increment.copy_(at::tensor(std::vector<float>(mask.begin(), mask.end())));
  }
  if (state.active.empty()) return;
  state.steps.add_(state.increment);
  double decay_per_lr = 0;  // lr * decay_per_lr = lr/lr0 * weight_decay
  if (group.initial_lr != 0) {
    decay_per_lr = group.weight_decay / group.initial_lr;
  } else if (group.weight_decay != 0) {
    at::_foreach_mul_(state.active.params(), 1 - group.weight_decay);
  }
  const Moments& own = state.selected;
  at::_fused_adamw_(state.active.params(), state.active.grads(), own.exp_avg, own.exp_avg_sq, own.max_exp_avg_sq,
                    own.step, group.lr, options_.beta1, options_.beta2, decay_per_lr, options_.eps, options_.amsgrad,
                    /*maximize=*/false);
  state.active.Release();
}

NamedTensors DecoupledAdamW::state() {
  NamedTensors result;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Moments& all = state_[g]->all;
    result.emplace_back(absl::StrCat("group", g, "/step"), state_[g]->steps);
    for (size_t i = 0; i < all.exp_avg.size(); ++i) {
      const std::string& name = groups_[g].names[i];
      result.emplace_back(name + "/exp_avg", all.exp_avg[i]);
      result.emplace_back(name + "/exp_avg_sq", all.exp_avg_sq[i]);
      if (options_.amsgrad) result.emplace_back(name + "/max_exp_avg_sq", all.max_exp_avg_sq[i]);
    }
  }
  return result;
}

}  // namespace composer
