// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/adam.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace composer {

AdamFamily::AdamFamily(std::vector<ParamGroup> groups, const AdamOptions& options, AdamDecay decay)
    : Optimizer(std::move(groups)), options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  const torch::NoGradGuard no_grad;
  for (ParamGroup& group : groups_) state_.push_back(std::make_unique<AdamGroup>(group, options, decay));
}

AdamFamily::~AdamFamily() {
  if (!in_backward_) return;
  for (const ParamGroup& group : groups_) {
    for (const at::Tensor& param : group.params) torch::autograd::impl::set_post_acc_grad_hooks(param, nullptr);
  }
}

class AdamFamily::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(AdamFamily& owner, size_t group, size_t parameter) : owner_(owner), group_(group), parameter_(parameter) {}
  void operator()(const torch::autograd::Variable& param) override { owner_.OnGradient(param, group_, parameter_); }

 private:
  AdamFamily& owner_;
  const size_t group_, parameter_;
};

void AdamFamily::BeginInBackward() {
  if (!options_.in_backward || std::exchange(in_backward_, true)) return;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::vector<at::Tensor>& params = groups_[group].params;
    taken_.emplace_back(params.size(), 0);
    for (size_t i = 0; i < params.size(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(params[i], std::make_unique<Hook>(*this, group, i));
  }
}

void AdamFamily::OnGradient(const at::Tensor& param, size_t group, size_t parameter) {
  const torch::NoGradGuard no_grad;
  check_.Add(param.grad());
  if (!check_.finite()) return;
  TORCH_CHECK_VALUE(std::exchange(taken_[group][parameter], 1) == 0,
                    "optimizers: in_backward: true: ", groups_[group].names[parameter],
                    " has got a second gradient in a step: it needs one backward pass a step, so not a smaller "
                    "device_train_microbatch_size");
  state_[group]->StepOne(groups_[group], parameter);
  param.mutable_grad().reset();
}

void AdamFamily::Update(const at::Tensor& found_inf) {
  TORCH_CHECK_VALUE(in_backward_ == options_.in_backward, "optimizers: in_backward: true, but nothing has begun it: ",
                    "an algorithm has wrapped the optimizer, or the program does not call BeginInBackward");
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) state_[i]->Step(groups_[i], found_inf);
  check_.Reset();
  for (std::vector<char>& group : taken_) std::fill(group.begin(), group.end(), 0);
}

void AdamFamily::UseDeviceRates() {
  for (const auto& group : state_) group->UseDeviceRate();
}

void AdamFamily::WriteRates() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) state_[i]->WriteRate(groups_[i]);
}

NamedTensors AdamFamily::state() {
  NamedTensors result;
  for (size_t i = 0; i < groups_.size(); ++i) state_[i]->AppendState(i, groups_[i], result);
  return result;
}

}  // namespace composer
