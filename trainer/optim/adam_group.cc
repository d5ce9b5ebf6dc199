// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/adam_group.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "trainer/optim/adam_bf16.h"

namespace composer {
namespace {

// Throws if adam_bf16.h cannot update the group's parameters.
void CheckForBf16(const ParamGroup& group) {
  if (group.params.empty()) return;
  const at::Tensor& param = group.params[0];
  TORCH_CHECK_VALUE(param.is_cpu() && param.scalar_type() == at::kFloat,
                    "optimizers: state_dtype: bfloat16 needs float32 parameters on a CPU, these are ",
                    param.scalar_type(), " on ", param.device());
}

at::ScalarType StateType(const ParamGroup& group, const AdamOptions& options) {
  if (options.bf16_state) return at::kBFloat16;
  return group.params.empty() ? at::kFloat : group.params[0].scalar_type();
}

// composer::adamw_ of trainer/kernels/operators.h, found by its name.
using OwnAdamW = void(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
                      at::TensorList steps, double lr, double beta1, double beta2, double weight_decay, double eps,
                      const std::optional<at::Tensor>& found_inf, at::TensorList copies);

// Returns the operator if it has a kernel for the tensor's device, which a run on a GPU registers with `kernels: auto`.
std::optional<c10::TypedOperatorHandle<OwnAdamW>> OwnKernelFor(const at::Tensor& param) {
  const auto found = c10::Dispatcher::singleton().findSchema({"composer::adamw_", ""});
  const auto key = param.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  if (!found.has_value() || !found->hasKernelForDispatchKey(key)) return std::nullopt;
  return found->typed<OwnAdamW>();
}

// The kernel takes contiguous float32.
bool ArePlain(at::TensorList tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
  });
}

// Other bits for each parameter and step.
uint32_t SeedOf(double step, size_t parameter) {
  return static_cast<uint32_t>(step) * 0x9E3779B9U + static_cast<uint32_t>(parameter) * 0x7FEB352DU;
}

}  // namespace

absl::Status Validate(const AdamOptions& options) {
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  if (!fraction(options.beta1) || !fraction(options.beta2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("betas: (", options.beta1, ", ", options.beta2, "), allowed are numbers in [0, 1)"));
  }
  if (!(options.eps >= 0)) return absl::InvalidArgumentError(absl::StrCat("eps: ", options.eps, ", must be >= 0"));
  if (options.bf16_state && options.amsgrad)
    return absl::InvalidArgumentError(
        "state_dtype: bfloat16 does not go with amsgrad: the largest of values that are rounded at random grows by "
        "their rounding");
  return absl::OkStatus();
}

AdamGroup::AdamGroup(ParamGroup& group, const AdamOptions& options, AdamDecay decay)
    : options_(options),
      decay_(decay),
      has_own_kernel_(!group.params.empty() && OwnKernelFor(group.params[0]).has_value()),
      active_(group),
      exp_avg_(group, StateType(group, options)),
      exp_avg_sq_(group, StateType(group, options)) {
  if (options.bf16_state) CheckForBf16(group);
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

double AdamGroup::Decay(const ParamGroup& group) const {
  if (decay_ != AdamDecay::kDecoupledFromPeak) return group.weight_decay;
  return group.initial_lr == 0 ? 0 : group.weight_decay / group.initial_lr;
}

void AdamGroup::Step(const ParamGroup& group, const at::Tensor& found_inf) {
  if (active_.Refresh()) SelectActive();
  if (active_.empty()) return;
  if (options_.bf16_state && found_inf.defined() && found_inf.item<float>() != 0) return active_.Release();
  CountStep(found_inf);
  if (decay_ == AdamDecay::kDecoupledFromPeak && group.initial_lr == 0)
    active_.Scale(1 - group.weight_decay, found_inf);
  Update(group,
         {active_.params(), active_.grads(), exp_avg_.active, exp_avg_sq_.active, max_exp_avg_sq_.active, active_step_},
         found_inf);
  active_.Release();
}

void AdamGroup::UseDeviceRate() { rate_ = at::empty({}, steps_.options()); }

void AdamGroup::WriteRate(const ParamGroup& group) { rate_.fill_(group.lr); }

void AdamGroup::StepOne(const ParamGroup& group, size_t parameter) {
  const at::Tensor& param = group.params[parameter];
  const at::Tensor grad = LaidOutLike(param, param.grad());
  step_[parameter].add_(1);
  if (decay_ == AdamDecay::kDecoupledFromPeak && group.initial_lr == 0) at::Tensor(param).mul_(1 - group.weight_decay);
  const auto one = [parameter](const StateTensors& state) {
    return state.all.empty() ? at::TensorList() : at::TensorList(state.all).slice(parameter, 1);
  };
  Update(group, {param, grad, one(exp_avg_), one(exp_avg_sq_), one(max_exp_avg_sq_), step_[parameter], parameter}, {});
}

// A rate on the device is for torch's kernel: ours takes it from the host.
bool AdamGroup::UpdateByOwnKernel(const ParamGroup& group, const Updated& of, const at::Tensor& found_inf) {
  if (!has_own_kernel_ || decay_ == AdamDecay::kL2 || options_.amsgrad || rate_.defined()) return false;
  const auto kernel = OwnKernelFor(of.params[0]);
  if (!kernel || !ArePlain(of.params) || !ArePlain(of.grads) || !ArePlain(of.exp_avg) || !ArePlain(of.exp_avg_sq))
    return false;
  kernel->call(of.params, of.grads, of.exp_avg, of.exp_avg_sq, of.steps, group.lr, group.momentum, options_.beta2,
               Decay(group), options_.eps, found_inf.defined() ? std::make_optional(found_inf) : std::nullopt, {});
  return true;
}

void AdamGroup::Update(const ParamGroup& group, const Updated& of, const at::Tensor& found_inf) {
  if (options_.bf16_state) return UpdateBf16(group, of);
  if (UpdateByOwnKernel(group, of, found_inf)) return;
  const auto update_at = [&](auto fused, const auto& rate) {
    fused(of.params, of.grads, of.exp_avg, of.exp_avg_sq, of.max_exp_avg_sq, of.steps, rate, group.momentum,
          options_.beta2, Decay(group), options_.eps, options_.amsgrad, /*maximize=*/false, /*grad_scale=*/std::nullopt,
          found_inf.defined() ? std::make_optional(found_inf) : std::nullopt);
  };
  const auto update = [&](auto fused) { rate_.defined() ? update_at(fused, rate_) : update_at(fused, group.lr); };
  if (decay_ == AdamDecay::kL2) {
    update([](auto&&... args) { at::_fused_adam_(args...); });
  } else {
    update([](auto&&... args) { at::_fused_adamw_(args...); });
  }
}

void AdamGroup::UpdateBf16(const ParamGroup& group, const Updated& of) {
  AdamBf16Update update;
  update.beta1 = static_cast<float>(group.momentum);
  update.beta2 = static_cast<float>(options_.beta2);
  update.eps = static_cast<float>(options_.eps);
  if (decay_ == AdamDecay::kL2) {
    update.l2 = static_cast<float>(Decay(group));
  } else {
    update.keep = static_cast<float>(1 - group.lr * Decay(group));
  }
  for (size_t i = 0; i < of.params.size(); ++i) {
    const double step = of.steps[i].item<double>();
    update.step_size = static_cast<float>(group.lr / (1 - std::pow(group.momentum, step)));
    update.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, step)));
    update.seed = SeedOf(step, of.first + i);
    ApplyAdamBf16(update, of.params[i], of.grads[i], of.exp_avg[i], of.exp_avg_sq[i]);
  }
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
