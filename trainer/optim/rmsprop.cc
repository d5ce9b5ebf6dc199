// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/rmsprop.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"

namespace composer {

absl::Status Validate(const RmspropOptions& options) {
  const std::pair<const char*, double> fields[] = {
      {"alpha", options.alpha}, {"eps", options.eps}, {"momentum", options.momentum}};
  for (const auto& [field, value] : fields) {
    if (!(value >= 0)) return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", must be >= 0"));
  }
  return absl::OkStatus();
}

RmspropOptimizer::GroupState::GroupState(const ParamGroup& group, const RmspropOptions& options)
    : active(group), square_avg(group) {
  if (options.centered) grad_avg = StateTensors(group);
  if (options.momentum > 0) momentum_buffer = StateTensors(group);
}

RmspropOptimizer::RmspropOptimizer(std::vector<ParamGroup> groups, const RmspropOptions& options)
    : Optimizer(std::move(groups)), options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  const torch::NoGradGuard no_grad;
  for (ParamGroup& group : groups_) {
    group.momentum = options.momentum;
    state_.push_back(std::make_unique<GroupState>(group, options));
  }
}

void RmspropOptimizer::Step() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) StepGroup(groups_[i], *state_[i]);
}

std::vector<at::Tensor> RmspropOptimizer::Denominators(at::TensorList grads, GroupState& state) {
  at::_foreach_mul_(state.square_avg.active, options_.alpha);
  at::_foreach_addcmul_(state.square_avg.active, grads, grads, 1 - options_.alpha);
  std::vector<at::Tensor> result;
  if (options_.centered) {
    at::_foreach_lerp_(state.grad_avg.active, grads, 1 - options_.alpha);
    result = at::_foreach_addcmul(state.square_avg.active, state.grad_avg.active, state.grad_avg.active, -1);
    at::_foreach_sqrt_(result);
  } else {
    result = at::_foreach_sqrt(state.square_avg.active);
  }
  at::_foreach_add_(result, options_.eps);
  return result;
}

void RmspropOptimizer::StepGroup(const ParamGroup& group, GroupState& state) {
  if (state.active.Refresh()) {
    for (StateTensors* tensors : {&state.square_avg, &state.grad_avg, &state.momentum_buffer}) {
      tensors->Select(state.active);
    }
  }
  if (state.active.empty()) return;
  std::vector<at::Tensor> decayed;
  at::TensorList grads = state.active.grads();
  if (group.weight_decay != 0) {
    decayed = at::_foreach_add(grads, state.active.params(), group.weight_decay);
    grads = decayed;
  }
  const std::vector<at::Tensor> denominators = Denominators(grads, state);
  if (options_.momentum > 0) {
    at::_foreach_mul_(state.momentum_buffer.active, group.momentum);
    at::_foreach_addcdiv_(state.momentum_buffer.active, grads, denominators);
    at::_foreach_add_(state.active.params(), state.momentum_buffer.active, -group.lr);
  } else {
    at::_foreach_addcdiv_(state.active.params(), grads, denominators, -group.lr);
  }
  state.active.Release();
}

NamedTensors RmspropOptimizer::state() {
  NamedTensors result;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].names.size(); ++i) {
      state_[g]->square_avg.AppendOne(groups_[g], i, "square_avg", result);
      state_[g]->grad_avg.AppendOne(groups_[g], i, "grad_avg", result);
      state_[g]->momentum_buffer.AppendOne(groups_[g], i, "momentum_buffer", result);
    }
  }
  return result;
}

}  // namespace composer
