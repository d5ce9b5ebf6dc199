// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/schedule_free_adamw.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/algorithms/averaged_weights.h"
#include "trainer/core/state.h"
#include "trainer/optim/model_params.h"
#include "trainer/optim/schedule/bad_value.h"

namespace composer {
namespace {

enum FreeTensor : size_t { kSecondMoment, kZ };
enum FreeScalar : size_t { kWeightSum, kLargestLr };

class ScheduleFreeWeights final : public AveragedWeights {
 public:
  std::string name() const override { return "ScheduleFree"; }
  void Follow(ScheduleFreeAdamWOptimizer& optimizer) { optimizer_ = &optimizer; }
  std::string SaveState() const override { return started_ ? "{}" : ""; }
  absl::Status PrepareLoad(absl::string_view json) override {
    UseForInference(false);
    started_ = !json.empty();
    return absl::OkStatus();
  }

 protected:
  bool has_average() const override { return started_; }
  std::vector<at::Tensor> Averages() const override {
    std::vector<at::Tensor> averages;
    for (const at::Tensor& tensor : live()) averages.push_back(optimizer_->Average(tensor));
    return averages;
  }
  bool Wants(Event event, const State& /*state*/) const override { return !started_ && event != Event::kEpochEnd; }
  // At FIT_START nothing of the algorithm was loaded, though the optimizer's state may have been.
  void Advance(Event event, State& /*state*/) override {
    event == Event::kFitStart ? optimizer_->Restart() : static_cast<void>(started_ = true);
  }

 private:
  ScheduleFreeAdamWOptimizer* optimizer_ = nullptr;
  bool started_ = false;
};

}  // namespace

absl::Status Validate(const ScheduleFreeOptions& options) {
  if (!(options.beta1 > 0 && options.beta1 < 1)) return BadValue("betas[0]", options.beta1, "between 0 and 1");
  if (!(options.beta2 >= 0 && options.beta2 < 1)) return BadValue("betas[1]", options.beta2, "in [0, 1)");
  if (!(options.eps >= 0)) return BadValue("eps", options.eps, ">= 0");
  if (!(options.r >= 0)) return BadValue("r", options.r, ">= 0");
  if (!(options.weight_lr_power >= 0)) return BadValue("weight_lr_power", options.weight_lr_power, ">= 0");
  return absl::OkStatus();
}

ScheduleFreeAdamWOptimizer::ScheduleFreeAdamWOptimizer(std::vector<ParamGroup> groups,
                                                       const ScheduleFreeOptions& options)
    : ForeachOptimizer(std::move(groups), "ScheduleFreeAdamW", {{"exp_avg_sq", "z"}, {"weight_sum", "lr_max"}}),
      options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
}

void ScheduleFreeAdamWOptimizer::JoinRun(std::vector<std::unique_ptr<Algorithm>>& algorithms) {
  for (const auto& algorithm : algorithms) {
    auto* const weights = dynamic_cast<ScheduleFreeWeights*>(algorithm.get());
    if (weights != nullptr) return weights->Follow(*this);
  }
  auto weights = std::make_unique<ScheduleFreeWeights>();
  weights->Follow(*this);
  algorithms.push_back(std::move(weights));
}

at::Tensor ScheduleFreeAdamWOptimizer::Average(const at::Tensor& param) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<at::Tensor>& params = groups_[g].params;
    const auto same = [&](const at::Tensor& other) { return other.is_same(param); };
    const auto found = std::find_if(params.begin(), params.end(), same);
    if (found == params.end()) continue;
    const auto i = static_cast<size_t>(found - params.begin());
    if (NumUpdates(g, i) > 0) return param.detach().lerp(StateOf(kZ, g)[i], 1 - 1 / options_.beta1);
  }
  return param.detach().clone();
}

void ScheduleFreeAdamWOptimizer::Update(const ParamGroup& group, const Active& active) {
  const at::TensorList v = active.tensors[kSecondMoment], z = active.tensors[kZ];
  std::vector<at::Scalar> corrections, shares, lengths;
  for (size_t i = 0; i < active.params.size(); ++i) {
    const double t = active.step[i];
    if (t == 1) z[i].copy_(active.params[i]);
    double &sum = *active.scalars[kWeightSum][i], &largest = *active.scalars[kLargestLr][i];
    largest = std::max(largest, group.lr);
    const double weight = std::pow(t, options_.r) * std::pow(largest, options_.weight_lr_power);
    sum += weight;
    const double share = sum > 0 ? weight / sum : 0;
    corrections.emplace_back(1 - std::pow(options_.beta2, t));
    shares.emplace_back(share);
    lengths.emplace_back(group.lr * (options_.beta1 * (1 - share) - 1));
  }
  at::_foreach_mul_(v, options_.beta2);
  at::_foreach_addcmul_(v, active.grads, active.grads, 1 - options_.beta2);
  std::vector<at::Tensor> denominators = at::_foreach_div(v, corrections);
  at::_foreach_sqrt_(denominators);
  at::_foreach_add_(denominators, options_.eps);
  std::vector<at::Tensor> updates = at::_foreach_div(active.grads, denominators);
  if (group.weight_decay != 0) at::_foreach_add_(updates, active.params, group.weight_decay);
  // With x = y + (1 - 1/beta1)(z - y) the two steps of y below are those of x and z.
  at::_foreach_lerp_(active.params, z, shares);
  at::_foreach_add_(z, updates, -group.lr);
  at::_foreach_mul_(updates, lengths);
  at::_foreach_add_(active.params, updates);
}

OptimizerFactory ScheduleFreeAdamW(const ParamGroupOptions& groups, const ScheduleFreeOptions& options) {
  return
      [=](Model& model) { return std::make_unique<ScheduleFreeAdamWOptimizer>(ParamGroupsOf(model, groups), options); };
}
OptimizerFactory ScheduleFreeAdamW(double lr, const ScheduleFreeOptions& options) {
  return ScheduleFreeAdamW({.lr = lr, .weight_decay = 0}, options);
}

}  // namespace composer
