// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/stochastic_depth.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/layers/replace_layers.h"

namespace composer {
namespace {

std::vector<StochasticSum*> SumsOf(const Model& model) {
  std::vector<StochasticSum*> sums;
  for (const auto& [name, module] : FindLayers(model, LayersOfType<StochasticSum>()))
    sums.push_back(dynamic_cast<StochasticSum*>(module.get()));
  return sums;
}

}  // namespace

absl::Status Validate(const StochasticDepthOptions& options) {
  const auto refuse = [](absl::string_view field, auto value, absl::string_view range) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", it must be ", range));
  };
  if (options.target_layer_name.empty()) return refuse("target_layer_name", "''", "a kind of block");
  if (!(options.drop_rate >= 0 && options.drop_rate <= 1))
    return refuse("drop_rate", options.drop_rate, "between 0 and 1");
  if (!(options.drop_warmup >= 0 && options.drop_warmup <= 1))
    return refuse("drop_warmup", options.drop_warmup, "between 0 and 1");
  if (options.by_sample && options.drop_warmup > 0)
    return refuse("drop_warmup", options.drop_warmup, "0 with stochastic_method: sample");
  return absl::OkStatus();
}

double DropRate(const StochasticDepthOptions& options, double drop_rate, size_t index, size_t count) {
  return options.linear ? static_cast<double>(index + 1) / static_cast<double>(count) * drop_rate : drop_rate;
}

at::Tensor StochasticSum::forward(Part branch, Part shortcut) {
  const double kept = 1 - drop_rate_;
  if (!is_training()) return (branch() * kept).add_(shortcut());
  if (!by_sample_) {
    const bool runs = at::bernoulli(torch::full({}, kept)).item<float>() != 0;
    // The caller writes to the sum, and the shortcut may be the block's input itself.
    return runs ? branch().add_(shortcut()) : shortcut().clone();
  }
  at::Tensor y = branch();
  if (drop_rate_ > 0) {
    std::vector<int64_t> shape(static_cast<size_t>(y.dim()), 1);
    shape[0] = y.size(0);
    y = y * (kept + torch::rand(shape, y.options().requires_grad(false))).floor_();
  }
  return y.add_(shortcut());
}

bool StochasticDepth::Match(Event event, const State& /*state*/) const {
  return event == Event::kInit || options_.drop_warmup > 0;
}

absl::Status StochasticDepth::ChangeModel(Model& model, const ModelContext& context) {
  const std::vector<LayerPolicy> policies = PoliciesFor(*this, context);
  const auto is_target = [&](const std::string&, const torch::nn::Module& module) {
    const auto* sum = dynamic_cast<const ResidualSum*>(&module);
    return sum != nullptr && sum->block() == options_.target_layer_name;
  };
  const size_t count = FindLayers(model, is_target).size();
  size_t index = 0;
  ReplaceLayers(model, policies, [&](const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
    if (!is_target(name, *module)) return std::shared_ptr<torch::nn::Module>();
    const double rate = DropRate(options_, options_.drop_rate, index++, count);
    return std::shared_ptr<torch::nn::Module>(
        std::make_shared<StochasticSum>(options_.target_layer_name, options_.by_sample, rate));
  });
  return absl::OkStatus();
}

absl::Status StochasticDepth::Apply(Event event, State& state, Logger& logger) {
  const std::vector<StochasticSum*> sums = SumsOf(*state.model);
  if (event == Event::kInit) {
    logger.LogHyperparameters({{"stochastic_depth/num_stochastic_layers", absl::StrCat(sums.size())}});
    if (sums.empty() && state.identity.rank == 0)
      LOG(WARNING) << "StochasticDepth has no effect: " << ClassNameOf(*state.model)
                   << " has no residual block of kind " << options_.target_layer_name;
    return absl::OkStatus();
  }
  const double elapsed = ElapsedFraction(state.timestamp, state.max_duration);
  const double rate = options_.drop_rate * std::min(1.0, elapsed / options_.drop_warmup);
  for (size_t i = 0; i < sums.size(); ++i) sums[i]->SetDropRate(DropRate(options_, rate, i, sums.size()));
  logger.Log("stochastic_depth/drop_rate", rate);
  return absl::OkStatus();
}

}  // namespace composer
