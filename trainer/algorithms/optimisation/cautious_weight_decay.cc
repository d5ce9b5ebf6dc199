// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/optimisation/cautious_weight_decay.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"

namespace composer {
namespace {

constexpr const char* kFollowsRate[] = {"AdamW", "Lion", "Muon", "NorMuon"};
constexpr const char* kFollowsShareOfPeak[] = {"DecoupledAdamW", "DecoupledSGDW"};

template <typename Names>
bool IsAmong(const Names& names, const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

class CautiousOptimizer final : public Optimizer {
 public:
  CautiousOptimizer(std::unique_ptr<Optimizer> base, bool share_of_peak)
      : Optimizer({}), base_(std::move(base)), share_of_peak_(share_of_peak) {}

  std::string name() const override { return base_->name(); }
  NamedTensors state() override { return base_->state(); }
  std::vector<ParamGroup>& groups() override { return base_->groups(); }
  absl::string_view needs_whole_parameters() const override { return base_->needs_whole_parameters(); }

  void Step() override {
    const torch::NoGradGuard no_grad;
    std::vector<Decay> decays;
    std::vector<double> given;
    for (ParamGroup& group : groups()) {
      given.push_back(std::exchange(group.weight_decay, 0));
      const double factor = FactorOf(group, given.back());
      for (const at::Tensor& param : group.params) {
        if (factor != 0 && param.grad().defined()) decays.push_back({param, param.detach().clone(), factor});
      }
    }
    {
      const auto restore = absl::MakeCleanup([&] {
        for (size_t i = 0; i < given.size(); ++i) groups()[i].weight_decay = given[i];
      });
      base_->Step();
    }
    for (const Decay& decay : decays) DecayCautiously(decay.param, decay.before, decay.factor);
  }

 private:
  struct Decay {
    at::Tensor param, before;
    double factor;
  };

  double FactorOf(const ParamGroup& group, double weight_decay) const {
    if (!share_of_peak_) return group.lr * weight_decay;
    return weight_decay * (group.initial_lr == 0 ? 1 : group.lr / group.initial_lr);
  }

  std::unique_ptr<Optimizer> base_;
  bool share_of_peak_;
};

}  // namespace

void DecayCautiously(at::Tensor param, at::Tensor before, double decay) {
  const torch::NoGradGuard no_grad;
  const at::Tensor agrees = before.sub(param).mul_(before).ge_(0);
  param.sub_(before.mul_(agrees), decay);
}

std::unique_ptr<Optimizer> CautiousWeightDecay::WrapOptimizer(std::unique_ptr<Optimizer> optimizer,
                                                              const State& /*state*/) {
  const std::string name = optimizer->name();
  TORCH_CHECK_VALUE(!optimizer->needs_closure(),
                    "algorithms: cautious_weight_decay is listed behind an algorithm that "
                    "wraps the optimizer (",
                    name, "); list it first");
  const bool share_of_peak = IsAmong(kFollowsShareOfPeak, name);
  TORCH_CHECK_VALUE(
      share_of_peak || IsAmong(kFollowsRate, name),
      "algorithms: cautious_weight_decay needs an optimizer "
      "with decoupled weight decay: adamw, decoupled_adamw, decoupled_sgdw, lion, muon or normuon; this is ",
      name);
  return std::make_unique<CautiousOptimizer>(std::move(optimizer), share_of_peak);
}

}  // namespace composer
