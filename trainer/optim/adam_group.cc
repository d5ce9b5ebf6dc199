// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/adam_group.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"

namespace composer {

absl::Status Validate(const AdamOptions& options) {
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  if (!fraction(options.beta1) || !fraction(options.beta2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("betas: (", options.beta1, ", ", options.beta2, "), allowed are numbers in [0, 1)"));
  }
  if (!(options.eps >= 0)) return absl::InvalidArgumentError(absl::StrCat("eps: ", options.eps, ", must be >= 0"));
  return absl::OkStatus();
}

AdamGroup::AdamGroup(ParamGroup& group, const AdamOptions& options, AdamDecay decay)
    : options_(options), decay_(decay), active_(group), exp_avg_(group), exp_avg_sq_(group) {
  if (options.amsgrad) max_exp_avg_sq_ = StateTensors(group);
  group.momentum = options.beta1;
  const auto count = static_cast<int64_t>(group.params.size());
  const auto device = count > 0 ? group.params[0].device() : at::Device(at::kCPU);
  steps_ = at::zeros({count}, at::TensorOptions().dtype(at::kFloat).device(device));
  increment_ = at::zeros_like(steps_);
  for (int64_t i = 0; i < count; ++i) step_.push_back(steps_.select(0, i));
}

void AdamGroup::SelectActive() {
  exp_avg_.Select(active_);
  exp_avg_sq_.Select(active_);
  max_exp_avg_sq_.Select(active_);
  active_step_ = active_.Select(step_);
  const std::vector<char>& mask = active_.mask();
  increment_.copy_(at::tensor(std::vector<float>(mask.begin(), mask.end())));
}

void AdamGroup::CountStep(const at::Tensor& found_inf) {
  if (found_inf.defined()) {
    steps_.addcmul_(increment_, 1 - found_inf.view({1}));
  } else {
    steps_.add_(increment_);
  }
}

void AdamGroup::Step(const ParamGroup& group, const at::Tensor& found_inf) {
  if (active_.Refresh()) SelectActive();
  if (active_.empty()) return;
  CountStep(found_inf);
  double decay = group.weight_decay;
  if (decay_ == AdamDecay::kDecoupledFromPeak) {
    if (group.initial_lr == 0) active_.Scale(1 - group.weight_decay, found_inf);
    decay = group.initial_lr == 0 ? 0 : group.weight_decay / group.initial_lr;
  }
  const auto update = [&](auto fused) {
    fused(active_.params(), active_.grads(), exp_avg_.active, exp_avg_sq_.active, max_exp_avg_sq_.active, active_step_,
          group.lr, group.momentum, options_.beta2, decay, options_.eps, options_.amsgrad, /*maximize=*/false,
          /*grad_scale=*/std::nullopt, found_inf.defined() ? std::make_optional(found_inf) : std::nullopt);
  };
  if (decay_ == AdamDecay::kL2) {
    update([](auto&&... args) { at::_fused_adam_(args...); });
  } else {
    update([](auto&&... args) { at::_fused_adamw_(args...); });
  }
  active_.Release();
}

void AdamGroup::AppendState(size_t index, const ParamGroup& group, NamedTensors& state) const {
  state.emplace_back(absl::StrCat("group", index, "/step"), steps_);
  for (size_t i = 0; i < group.names.size(); ++i) {
    exp_avg_.AppendOne(group, i, "exp_avg", state);
    exp_avg_sq_.AppendOne(group, i, "exp_avg_sq", state);
    max_exp_avg_sq_.AppendOne(group, i, "max_exp_avg_sq", state);
  }
}

}  // namespace composer
