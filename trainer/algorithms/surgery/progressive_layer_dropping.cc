// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/progressive_layer_dropping.h"

#include <torch/types.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/core/block.h"
#include "trainer/core/logger.h"
#include "trainer/core/model.h"
#include "trainer/core/state.h"
#include "trainer/layers/layer_selector.h"

namespace composer {
namespace {

// Returns x. Where nothing before it is trained (LoRA), all that is trained may be left out in a step; its loss must
// have a backward pass all the same, whose gradients are 0.
at::Tensor LeftOut(const at::Tensor& x) {
  at::Tensor same = x.clone();
  if (at::GradMode::is_enabled() && !same.requires_grad()) same.requires_grad_(true);
  return same;
}

class LayerDropper final : public BlockWrapper {
 public:
  LayerDropper(std::shared_ptr<const double> theta, size_t index, size_t count)
      : theta_(std::move(theta)), index_(index), count_(count) {}

  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override {
    if (!inner.module().is_training()) return inner(inputs);
    const at::Tensor& x = inputs.at(0);
    const double kept = KeepProbability(*theta_, index_, count_);
    if (at::bernoulli(torch::full({}, kept)).item<float>() == 0) return LeftOut(x);
    const at::Tensor y = inner(inputs);
    TORCH_CHECK_VALUE(y.sizes() == x.sizes(), "progressive_layer_dropping: block ", index_, " (", inner.module().name(),
                      ") makes ", y.sizes(), " of ", x.sizes(), ", so that it cannot be left out");
    return x + (y - x) / kept;
  }

 private:
  std::shared_ptr<const double> theta_;
  size_t index_, count_;
};

}  // namespace

absl::Status Validate(const LayerDroppingOptions& options) {
  if (!(options.theta > 0 && options.theta <= 1))
    return absl::InvalidArgumentError(absl::StrCat("theta: ", options.theta, ", it must be above 0 and at most 1"));
  if (!(options.gamma >= 0))
    return absl::InvalidArgumentError(absl::StrCat("gamma: ", options.gamma, ", it must be at least 0"));
  return absl::OkStatus();
}

double LayerDroppingTheta(const LayerDroppingOptions& options, double elapsed) {
  return options.theta + (1 - options.theta) * std::exp(-options.gamma * elapsed);
}

double KeepProbability(double theta, size_t index, size_t count) {
  return 1 - static_cast<double>(index + 1) / static_cast<double>(count) * (1 - theta);
}

absl::Status ProgressiveLayerDropping::ChangeModel(Model& model, const ModelContext& /*context*/) {
  const NamedModules blocks = FindLayers(model, LayersOfType<Block>());
  if (blocks.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("progressive_layer_dropping: it needs blocks (Block), and ", ClassNameOf(model), " has none"));
  for (size_t i = 0; i < blocks.size(); ++i)
    WrapLayer(*blocks[i].second, std::make_shared<LayerDropper>(theta_, i, blocks.size()));
  return absl::OkStatus();
}

absl::Status ProgressiveLayerDropping::Apply(Event event, State& state, Logger& logger) {
  if (event == Event::kInit) {
    if (state.identity.data_ranks == state.identity.world_size) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "progressive_layer_dropping: with tensor_parallel_degree ranks share blocks and would draw differently");
  }
  *theta_ = LayerDroppingTheta(options_, ElapsedFraction(state.timestamp, state.max_duration));
  logger.Log("progressive_layer_dropping/theta", *theta_);
  return absl::OkStatus();
}

}  // namespace composer
