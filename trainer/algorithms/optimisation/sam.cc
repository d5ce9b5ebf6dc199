// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/optimisation/sam.h"

#include <torch/types.h>

#include <cmath>
#include <utility>
#include <vector>

#include "trainer/core/state.h"
#include "trainer/parallel/norms/gradient_norm.h"

namespace composer {
namespace {

// Moves the parameters for a scope; afterwards they have their old bits.
class MovedParams {
 public:
  // Adds factor * gradient to each parameter that has one.
  MovedParams(const std::vector<at::Tensor>& params, double factor) {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& param : params) {
      if (!param.grad().defined()) continue;
      params_.push_back(param);
      saved_.push_back(param.detach().clone());
      gradients.push_back(param.grad());
    }
    if (!params_.empty()) at::_foreach_add_(params_, gradients, factor);
  }
  ~MovedParams() {
    const torch::NoGradGuard no_grad;
    if (!params_.empty()) at::_foreach_copy_(params_, saved_);
  }
  MovedParams(const MovedParams&) = delete;
  MovedParams& operator=(const MovedParams&) = delete;

 private:
  std::vector<at::Tensor> params_, saved_;
};

class SamOptimizer final : public Optimizer {
 public:
  SamOptimizer(std::unique_ptr<Optimizer> base, const SamOptions& options, const State& state)
      : Optimizer({}), base_(std::move(base)), options_(options), state_(state) {}

  std::string name() const override { return "SAMOptimizer"; }
  void Step() override { base_->Step(); }
  void StepUnless(const at::Tensor& found_inf) override { base_->StepUnless(found_inf); }
  NamedTensors state() override { return base_->state(); }
  std::vector<ParamGroup>& groups() override { return base_->groups(); }
  bool needs_closure() const override { return true; }
  absl::string_view needs_whole_parameters() const override { return base_->needs_whole_parameters(); }

  void StepWith(LossClosure& closure) override {
    const bool is_ordinary = (closure.batch() + 1) % options_.interval != 0;
    std::optional<double> loss =
        closure.Evaluate(is_ordinary ? LossClosure::Gradients::kOverRanks : LossClosure::Gradients::kOwn);
    if (loss && !is_ordinary) loss = EvaluateUphill(closure);
    if (loss) base_->Step();
  }

 private:
  std::optional<double> EvaluateUphill(LossClosure& closure) {
    std::vector<at::Tensor> params;
    for (const ParamGroup& group : groups()) params.insert(params.end(), group.params.begin(), group.params.end());
    const double norm = GradientNorm(params, state_.sharding);
    // A gradient that is not finite shows in the next evaluation, on all ranks at once.
    const double factor = std::isfinite(norm) ? options_.rho / (norm + options_.epsilon) : 0;
    const MovedParams moved(params, std::isfinite(factor) ? factor : 0);
    return closure.Evaluate(LossClosure::Gradients::kOverRanks);
  }

  std::unique_ptr<Optimizer> base_;
  SamOptions options_;
  const State& state_;
};

}  // namespace

std::unique_ptr<Optimizer> Sam::WrapOptimizer(std::unique_ptr<Optimizer> optimizer, const State& state) {
  TORCH_CHECK_VALUE(!optimizer->needs_closure(), "algorithms: sam does not go with the optimizer ", optimizer->name(),
                    ", which evaluates the loss by itself");
  return std::make_unique<SamOptimizer>(std::move(optimizer), options_, state);
}

}  // namespace composer
