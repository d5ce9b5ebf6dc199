// WeightStandardization makes two-dimensional convolutions use weights of mean 0 and variance 1 by output channel:
//
//   (W - mean(W)) / sqrt(var(W) + 1e-10), mean and biased variance over all dimensions but the first
//
// Gradients go through it. Parameters keep their names (torch's parametrization, which Composer uses, renames them) and
// hold W. Source: Qiao et al. 2019, arXiv:1903.10520; mosaicml composer/algorithms/weight_standardization.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

// Returns the standardised weights for W [out, *].
at::Tensor StandardizeWeights(const at::Tensor& weight);

// A convolution with standardised weights; it has the other's options and its very parameters.
class StandardizedConv2d final : public torch::nn::Conv2dImpl, public Layer {
 public:
  explicit StandardizedConv2d(const torch::nn::Conv2dImpl& conv) : torch::nn::Conv2dImpl(conv) {}
  at::Tensor forward(const at::Tensor& x) override { return _conv_forward(x, StandardizeWeights(weight)); }
};

class WeightStandardization final : public Surgery {
 public:
  // The last convolutions of the model, in its order, may be left out: n_last_layers_ignore >= 0 of them.
  explicit WeightStandardization(int64_t n_last_layers_ignore = 0) : n_last_layers_ignore_(n_last_layers_ignore) {}
  std::string name() const override { return "WeightStandardization"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
  std::string wanted() const override { return "convolution"; }

 private:
  int64_t n_last_layers_ignore_;
};

}  // namespace composer
