// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/foreach_optimizer.h"

#include <torch/types.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace composer {

ForeachOptimizer::ForeachOptimizer(std::vector<ParamGroup> groups, std::string name, Kept kept)
    : Optimizer(std::move(groups)), name_(std::move(name)), kept_(std::move(kept)) {
  kept_.scalars.insert(kept_.scalars.begin(), "step");
  for (const ParamGroup& group : groups_) {
    auto state = std::make_unique<GroupState>(group);
    for (size_t i = 0; i < kept_.tensors.size(); ++i) state->tensors.emplace_back(group);
    const auto count = static_cast<int64_t>(group.params.size());
    for (size_t i = 0; i < kept_.scalars.size(); ++i) state->scalars.push_back(at::zeros({count}, at::kDouble));
    state_.push_back(std::move(state));
  }
}

void ForeachOptimizer::FillTensors(size_t kind, size_t group, double value) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor& tensor : state_[group]->tensors[kind].all) tensor.fill_(value);
}

void ForeachOptimizer::FillScalars(size_t scalar, size_t group, double value) {
  state_[group]->scalars[scalar + 1].fill_(value);
}

double ForeachOptimizer::NumUpdates(size_t group, size_t parameter) const {
  return state_[group]->scalars[0].data_ptr<double>()[parameter];
}

void ForeachOptimizer::ClearState() {
  const torch::NoGradGuard no_grad;
  for (const auto& group : state_) {
    for (StateTensors& kind : group->tensors) {
      for (at::Tensor& tensor : kind.all) tensor.zero_();
    }
    for (at::Tensor& scalar : group->scalars) scalar.zero_();
  }
}

void ForeachOptimizer::Step() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) StepGroup(groups_[i], *state_[i]);
}

void ForeachOptimizer::StepGroup(const ParamGroup& group, GroupState& state) {
  if (state.active.Refresh()) {
    for (StateTensors& tensors : state.tensors) tensors.Select(state.active);
  }
  if (state.active.empty()) return;
  Active active{state.active.params(), state.active.grads(), {}, {}, {}};
  for (const StateTensors& tensors : state.tensors) active.tensors.emplace_back(tensors.active);
  active.scalars.resize(state.scalars.size() - 1);
  const std::vector<char>& mask = state.active.mask();
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    active.step.push_back(state.scalars[0].data_ptr<double>()[i] += 1);
    for (size_t k = 1; k < state.scalars.size(); ++k) {
      active.scalars[k - 1].push_back(state.scalars[k].data_ptr<double>() + i);
    }
  }
  Update(group, active);
  state.active.Release();
}

NamedTensors ForeachOptimizer::state() {
  NamedTensors result;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].names.size(); ++i) {
      for (size_t k = 0; k < kept_.tensors.size(); ++k) {
        state_[g]->tensors[k].AppendOne(groups_[g], i, kept_.tensors[k], result);
      }
    }
    for (size_t k = 0; k < kept_.scalars.size(); ++k) {
      result.emplace_back(absl::StrCat("group", g, "/", kept_.scalars[k]), state_[g]->scalars[k]);
    }
  }
  return result;
}

}  // namespace composer
