// SqueezeExcite scales the channels of each larger convolution's output by weights that a small network computes from
// their means over the image:
//
//   y = conv(x);   y * sigmoid(W2 relu(W1 mean(y)))
//
// Source: Hu et al. 2018, arXiv:1709.01507; mosaicml composer/algorithms/squeeze_excite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/layer_list.h"

namespace composer {

struct SqueezeExciteOptions {
  double latent_channels = 64;  // rows of W1; below 1 a share of the channels
  int64_t min_channels = 128;   // convolutions with fewer input or output channels stay
};

// Maps [B, channels, H, W] to the same. Parameters: pool_and_mlp.2.weight [latent, channels] and pool_and_mlp.4.weight
// [channels, latent].
class SqueezeExcite2d final : public torch::nn::Module, public Layer {
 public:
  // Throws c10::ValueError when latent_channels is not at least one channel.
  SqueezeExcite2d(int64_t channels, double latent_channels);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  Slot<Layer> pool_and_mlp_;
};

// A convolution and its SqueezeExcite2d. Parameters are those of the two under `conv.` and `se.`.
class SqueezeExciteConv2d final : public torch::nn::Module, public Layer {
 public:
  // `conv` is a Conv2dImpl and a Layer.
  SqueezeExciteConv2d(const std::shared_ptr<torch::nn::Module>& conv, double latent_channels);
  at::Tensor forward(const at::Tensor& x) override { return se_->forward(conv_->forward(x)); }

 private:
  Slot<Layer> conv_, se_;
};

class SqueezeExcite final : public Surgery {
 public:
  explicit SqueezeExcite(const SqueezeExciteOptions& options) : options_(options) {}
  std::string name() const override { return "SqueezeExcite"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
  std::string wanted() const override;

 private:
  SqueezeExciteOptions options_;
};

}  // namespace composer
