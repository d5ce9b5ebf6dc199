// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/torch_optimizers.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "trainer/optim/schedule/bad_value.h"

namespace composer {
namespace {

template <typename Options>
const Options& Valid(const Options& options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  return options;
}

absl::Status NotNegative(std::initializer_list<std::pair<const char*, double>> fields) {
  for (const auto& [field, value] : fields) {
    if (!(value >= 0)) return BadValue(field, value, ">= 0");
  }
  return absl::OkStatus();
}

template <typename Options>
absl::Status ValidateBetas(const Options& options) {
  if (!(options.beta1 >= 0 && options.beta1 < 1)) return BadValue("beta1", options.beta1, "in [0, 1)");
  if (!(options.beta2 >= 0 && options.beta2 < 1)) return BadValue("beta2", options.beta2, "in [0, 1)");
  return NotNegative({{"eps", options.eps}});
}

// Returns the gradients, with weight_decay times the parameters added; `room` keeps the sums.
at::TensorList Decayed(const ParamGroup& group, at::TensorList params, at::TensorList grads,
                       std::vector<at::Tensor>& room) {
  if (group.weight_decay == 0) return grads;
  room = at::_foreach_add(grads, params, group.weight_decay);
  return room;
}

// The same, or p <- p (1 - lr weight_decay).
at::TensorList Decayed(bool decoupled, const ParamGroup& group, at::TensorList params, at::TensorList grads,
                       std::vector<at::Tensor>& room) {
  if (!decoupled) return Decayed(group, params, grads, room);
  if (group.weight_decay != 0) at::_foreach_mul_(params, 1 - group.lr * group.weight_decay);
  return grads;
}

void UpdateMoments(at::TensorList grads, at::TensorList m, at::TensorList v, double beta1, double beta2) {
  at::_foreach_lerp_(m, grads, 1 - beta1);
  at::_foreach_mul_(v, beta2);
  at::_foreach_addcmul_(v, grads, grads, 1 - beta2);
}

void SetMomentum(std::vector<ParamGroup>& groups, double momentum) {
  for (ParamGroup& group : groups) group.momentum = momentum;
}

// The momentum of NAdam's step t.
double Mu(double beta1, double t, double decay) { return beta1 * (1 - 0.5 * std::pow(0.96, t * decay)); }

}  // namespace

absl::Status Validate(const AdagradOptions& options) {
  return NotNegative({{"lr_decay", options.lr_decay},
                      {"initial_accumulator_value", options.initial_accumulator_value},
                      {"eps", options.eps}});
}
absl::Status Validate(const AdadeltaOptions& options) {
  if (!(options.rho >= 0 && options.rho <= 1)) return BadValue("rho", options.rho, "in [0, 1]");
  return NotNegative({{"eps", options.eps}});
}
absl::Status Validate(const AdamaxOptions& options) { return ValidateBetas(options); }
absl::Status Validate(const NAdamOptions& options) {
  const absl::Status status = ValidateBetas(options);
  return status.ok() ? NotNegative({{"momentum_decay", options.momentum_decay}}) : status;
}
absl::Status Validate(const RAdamOptions& options) { return ValidateBetas(options); }
absl::Status Validate(const AsgdOptions& options) {
  for (const auto& [field, value] : {std::pair{"lambd", options.lambd}, {"alpha", options.alpha}, {"t0", options.t0}}) {
    if (!std::isfinite(value)) return BadValue(field, value, "a number");
  }
  return absl::OkStatus();
}
absl::Status Validate(const RpropOptions& options) {
  if (!(options.eta_minus > 0 && options.eta_minus < 1)) return BadValue("eta_minus", options.eta_minus, "in (0, 1)");
  if (!(options.eta_plus > 1)) return BadValue("eta_plus", options.eta_plus, "> 1");
  if (!(options.max_step >= options.min_step)) return BadValue("max_step", options.max_step, ">= min_step");
  return NotNegative({{"min_step", options.min_step}});
}

AdagradOptimizer::AdagradOptimizer(std::vector<ParamGroup> groups, const AdagradOptions& options)
    : ForeachOptimizer(std::move(groups), "Adagrad", {{"sum"}}), options_(Valid(options)) {
  for (size_t g = 0; g < groups_.size(); ++g) FillTensors(0, g, options.initial_accumulator_value);
}

void AdagradOptimizer::Update(const ParamGroup& group, const Active& active) {
  std::vector<at::Tensor> room;
  const at::TensorList grads = Decayed(group, active.params, active.grads, room), sums = active.tensors[0];
  at::_foreach_addcmul_(sums, grads, grads);
  const std::vector<at::Tensor> roots = at::_foreach_sqrt(sums);
  at::_foreach_add_(roots, options_.eps);
  std::vector<at::Scalar> rates;
  for (const double t : active.step) rates.emplace_back(-group.lr / (1 + (t - 1) * options_.lr_decay));
  at::_foreach_addcdiv_(active.params, grads, roots, rates);
}

AdadeltaOptimizer::AdadeltaOptimizer(std::vector<ParamGroup> groups, const AdadeltaOptions& options)
    : ForeachOptimizer(std::move(groups), "Adadelta", {{"square_avg", "acc_delta"}}), options_(Valid(options)) {}

void AdadeltaOptimizer::Update(const ParamGroup& group, const Active& active) {
  std::vector<at::Tensor> room;
  const at::TensorList grads = Decayed(group, active.params, active.grads, room);
  at::_foreach_mul_(active.tensors[0], options_.rho);
  at::_foreach_addcmul_(active.tensors[0], grads, grads, 1 - options_.rho);
  const std::vector<at::Tensor> deviations = at::_foreach_add(active.tensors[0], options_.eps);
  at::_foreach_sqrt_(deviations);
  const std::vector<at::Tensor> deltas = at::_foreach_add(active.tensors[1], options_.eps);
  at::_foreach_sqrt_(deltas);
  at::_foreach_div_(deltas, deviations);
  at::_foreach_mul_(deltas, grads);
  at::_foreach_mul_(active.tensors[1], options_.rho);
  at::_foreach_addcmul_(active.tensors[1], deltas, deltas, 1 - options_.rho);
  at::_foreach_add_(active.params, deltas, -group.lr);
}

AdamaxOptimizer::AdamaxOptimizer(std::vector<ParamGroup> groups, const AdamaxOptions& options)
    : ForeachOptimizer(std::move(groups), "Adamax", {{"exp_avg", "exp_inf"}}), options_(Valid(options)) {
  SetMomentum(groups_, options.beta1);
}

void AdamaxOptimizer::Update(const ParamGroup& group, const Active& active) {
  std::vector<at::Tensor> room;
  const at::TensorList grads = Decayed(group, active.params, active.grads, room);
  at::_foreach_lerp_(active.tensors[0], grads, 1 - group.momentum);
  const std::vector<at::Tensor> sizes = at::_foreach_abs(grads);
  at::_foreach_add_(sizes, options_.eps);
  at::_foreach_mul_(active.tensors[1], options_.beta2);
  at::_foreach_maximum_(active.tensors[1], sizes);
  std::vector<at::Scalar> rates;
  for (const double t : active.step) rates.emplace_back(-group.lr / (1 - std::pow(group.momentum, t)));
  at::_foreach_addcdiv_(active.params, active.tensors[0], active.tensors[1], rates);
}

NAdamOptimizer::NAdamOptimizer(std::vector<ParamGroup> groups, const NAdamOptions& options)
    : ForeachOptimizer(std::move(groups), "NAdam", {{"exp_avg", "exp_avg_sq"}, {"mu_product"}}),
      options_(Valid(options)) {
  SetMomentum(groups_, options.beta1);
  for (size_t g = 0; g < groups_.size(); ++g) FillScalars(0, g, 1);
}

void NAdamOptimizer::Update(const ParamGroup& group, const Active& active) {
  std::vector<at::Tensor> room;
  const at::TensorList grads = Decayed(options_.decoupled_weight_decay, group, active.params, active.grads, room);
  UpdateMoments(grads, active.tensors[0], active.tensors[1], group.momentum, options_.beta2);
  std::vector<at::Scalar> corrections, of_grads, of_averages;
  for (size_t i = 0; i < active.step.size(); ++i) {
    const double t = active.step[i];
    const double mu = Mu(group.momentum, t, options_.momentum_decay);
    const double next = Mu(group.momentum, t + 1, options_.momentum_decay);
    const double product = *active.scalars[0][i] *= mu;
    corrections.emplace_back(1 - std::pow(options_.beta2, t));
    of_grads.emplace_back(-group.lr * (1 - mu) / (1 - product));
    of_averages.emplace_back(-group.lr * next / (1 - product * next));
  }
  const std::vector<at::Tensor> roots = at::_foreach_div(active.tensors[1], corrections);
  at::_foreach_sqrt_(roots);
  at::_foreach_add_(roots, options_.eps);
  at::_foreach_addcdiv_(active.params, grads, roots, of_grads);
  at::_foreach_addcdiv_(active.params, active.tensors[0], roots, of_averages);
}

RAdamOptimizer::RAdamOptimizer(std::vector<ParamGroup> groups, const RAdamOptions& options)
    : ForeachOptimizer(std::move(groups), "RAdam", {{"exp_avg", "exp_avg_sq"}}), options_(Valid(options)) {
  SetMomentum(groups_, options.beta1);
}

void RAdamOptimizer::Update(const ParamGroup& group, const Active& active) {
  std::vector<at::Tensor> room;
  const at::TensorList grads = Decayed(options_.decoupled_weight_decay, group, active.params, active.grads, room);
  UpdateMoments(grads, active.tensors[0], active.tensors[1], group.momentum, options_.beta2);
  const double longest = 2 / (1 - options_.beta2) - 1;
  for (size_t i = 0; i < active.step.size(); ++i) {
    const double t = active.step[i], power = std::pow(options_.beta2, t);
    const double rate = -group.lr / (1 - std::pow(group.momentum, t));
    const double length = longest - 2 * t * power / (1 - power);
    const at::Tensor &param = active.params[i], &m = active.tensors[0][i], &v = active.tensors[1][i];
    if (length > 5) {
      const double rectified =
          std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) * (1 - power));
      param.addcdiv_(m, v.sqrt().add_(options_.eps), rate * rectified);
    } else {
      param.add_(m, rate);
    }
  }
}

AsgdOptimizer::AsgdOptimizer(std::vector<ParamGroup> groups, const AsgdOptions& options)
    : ForeachOptimizer(std::move(groups), "ASGD", {{"ax"}, {"eta", "mu"}}), options_(Valid(options)) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    FillScalars(0, g, groups_[g].lr);
    FillScalars(1, g, 1);
  }
}

void AsgdOptimizer::Update(const ParamGroup& group, const Active& active) {
  std::vector<at::Tensor> room;
  const at::TensorList grads = Decayed(group, active.params, active.grads, room);
  for (size_t i = 0; i < active.step.size(); ++i) {
    double &eta = *active.scalars[0][i], &mu = *active.scalars[1][i];
    const at::Tensor &param = active.params[i], &average = active.tensors[0][i];
    param.mul_(1 - options_.lambd * eta).add_(grads[i], -eta);
    if (mu != 1) {
      average.lerp_(param, mu);
    } else {
      average.copy_(param);
    }
    const double t = active.step[i];
    eta = group.lr / std::pow(1 + options_.lambd * group.lr * t, options_.alpha);
    mu = 1 / std::max(1.0, t - options_.t0);
  }
}

RpropOptimizer::RpropOptimizer(std::vector<ParamGroup> groups, const RpropOptions& options)
    : ForeachOptimizer(std::move(groups), "Rprop", {{"prev", "step_size"}}), options_(Valid(options)) {
  for (size_t g = 0; g < groups_.size(); ++g) FillTensors(1, g, groups_[g].lr);
}

void RpropOptimizer::Update(const ParamGroup& /*group*/, const Active& active) {
  for (size_t i = 0; i < active.step.size(); ++i) {
    const at::Tensor &before = active.tensors[0][i], &sizes = active.tensors[1][i];
    const at::Tensor agreement = active.grads[i] * before;
    const at::Tensor turned = agreement < 0;
    sizes.mul_(
        at::where(turned, options_.eta_minus, at::where(agreement > 0, options_.eta_plus, 1.0)).to(sizes.dtype()));
    sizes.clamp_(options_.min_step, options_.max_step);
    const at::Tensor grad = active.grads[i].masked_fill(turned, 0);
    active.params[i].addcmul_(grad.sign(), sizes, -1);
    before.copy_(grad);
  }
}

}  // namespace composer
