// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/lion.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"

namespace composer {

absl::Status Validate(const LionOptions& options) {
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  if (fraction(options.beta1) && fraction(options.beta2)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("betas: (", options.beta1, ", ", options.beta2, "), allowed are numbers in [0, 1)"));
}

LionOptimizer::LionOptimizer(std::vector<ParamGroup> groups, const LionOptions& options)
    : Optimizer(std::move(groups)), options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  const torch::NoGradGuard no_grad;
  for (ParamGroup& group : groups_) {
    group.momentum = options.beta1;
    state_.push_back(std::make_unique<GroupState>(group));
  }
}

void LionOptimizer::Step() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParamGroup& group = groups_[i];
    auto& [active, exp_avg] = *state_[i];
    if (active.Refresh()) exp_avg.Select(active);
    if (active.empty()) continue;
    std::vector<at::Tensor> directions = at::_foreach_lerp(exp_avg.active, active.grads(), 1 - group.momentum);
    at::_foreach_sign_(directions);
    active.Scale(1 - group.lr * group.weight_decay);
    at::_foreach_add_(active.params(), directions, -group.lr);
    at::_foreach_lerp_(exp_avg.active, active.grads(), 1 - options_.beta2);
    active.Release();
  }
}

NamedTensors LionOptimizer::state() {
  NamedTensors result;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].names.size(); ++i) {
      state_[g]->exp_avg.AppendOne(groups_[g], i, "exp_avg", result);
    }
  }
  return result;
}

}  // namespace composer
