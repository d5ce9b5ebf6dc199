// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/squeeze_excite.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/types.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/model.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

SqueezeExcite2d::SqueezeExcite2d(int64_t channels, double latent_channels) {
  const auto latent =
      static_cast<int64_t>(latent_channels >= 1 ? latent_channels : latent_channels * static_cast<double>(channels));
  TORCH_CHECK_VALUE(latent >= 1, "squeeze_excite: latent_channels ", latent_channels, " of ", channels,
                    " channels is less than one channel");
  const auto linear = [](int64_t in, int64_t out) {
    return std::make_shared<LinearLayer>(torch::nn::LinearOptions(in, out).bias(false));
  };
  pool_and_mlp_ =
      Slot<Layer>(*this, "pool_and_mlp",
                  std::make_shared<LayerSequence>(std::vector<std::shared_ptr<torch::nn::Module>>{
                      std::make_shared<TorchLayer<torch::nn::AdaptiveAvgPool2dImpl>>(1),
                      std::make_shared<TorchLayer<torch::nn::FlattenImpl>>(), linear(channels, latent),
                      std::make_shared<ReluLayer>(), linear(latent, channels), std::make_shared<SigmoidLayer>()}));
}

at::Tensor SqueezeExcite2d::forward(const at::Tensor& x) {
  return x * pool_and_mlp_->forward(x).reshape({x.size(0), x.size(1), 1, 1});
}

SqueezeExciteConv2d::SqueezeExciteConv2d(const std::shared_ptr<torch::nn::Module>& conv, double latent_channels)
    : conv_(*this, "conv", conv),
      se_(*this, "se",
          std::make_shared<SqueezeExcite2d>(conv->as<torch::nn::Conv2dImpl>()->options.out_channels(),
                                            latent_channels)) {}

absl::Status SqueezeExcite::ChangeModel(Model& model, const ModelContext& context) {
  // A convolution that has its network gets no other.
  absl::flat_hash_set<const torch::nn::Module*> done;
  for (const auto& [name, changed] : FindLayers(model, LayersOfType<SqueezeExciteConv2d>()))
    done.insert(changed->named_children()["conv"].get());
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const auto* conv = module->as<torch::nn::Conv2dImpl>();
    const bool replaced = conv != nullptr && !done.contains(conv) &&
                          std::min(conv->options.in_channels(), conv->options.out_channels()) >= options_.min_channels;
    return replaced ? std::make_shared<SqueezeExciteConv2d>(module, options_.latent_channels) : nullptr;
  });
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> SqueezeExcite::LayersOf(const Model& model) const {
  return {{"squeeze_excite/num_squeeze_excite_layers", FindLayers(model, LayersOfType<SqueezeExciteConv2d>()).size()}};
}

std::string SqueezeExcite::wanted() const {
  return absl::StrCat("convolution of at least ", options_.min_channels, " channels");
}

}  // namespace composer
