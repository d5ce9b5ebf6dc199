// Factorize replaces large layers by two of rank r that need less memory and time:
//
//   linear       W [out, in] by W1 [out, r] W0 [r, in]
//   convolution  k x k, in -> out, by k x k, in -> r, and 1 x 1, r -> out
//
// where r is smaller than in out / (in + out), from which on nothing is saved (in counts k x k pixels). The new layers
// start as torch's do; with svd_init from the best approximation of rank r of the old weights:
// W = U S V', W1 = U sqrt(S), W0 = sqrt(S) V' of the r largest. Grouped convolutions stay.
//
// Source: Moczulski et al. 2015 (ACDC), arXiv:1511.05946; mosaicml composer/algorithms/factorize, whose new
// convolutions pad with zeros whatever the old ones did; the padding mode is kept here. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

struct FactorizeOptions {
  bool factorize_convs = true;
  bool factorize_linears = true;
  int64_t min_channels = 256;     // convolutions with fewer input or output channels stay
  double latent_channels = 0.25;  // r; below 1 a share of the smaller of both
  int64_t min_features = 256;     // linear layers likewise
  double latent_features = 128;
  bool svd_init = false;
};

// Returns r for a latent size of an in x out layer.
int64_t LatentSize(double latent, int64_t in, int64_t out);
// Returns the largest r that saves something.
int64_t LargestUsefulRank(int64_t in, int64_t out);

struct LowRank {
  at::Tensor out, in;  // [out, r] and [r, in]
};
// Returns the factors of the best approximation of rank r to W [out, in].
LowRank FactorizeMatrix(const at::Tensor& weight, int64_t rank);

// module0 and module1 one after the other. Parameters are module0.weight, module1.weight, module1.bias.
class FactorizedLayer final : public torch::nn::Module, public Layer {
 public:
  FactorizedLayer(std::shared_ptr<torch::nn::Module> module0, std::shared_ptr<torch::nn::Module> module1)
      : module0_(*this, "module0", std::move(module0)), module1_(*this, "module1", std::move(module1)) {}
  at::Tensor forward(const at::Tensor& x) override { return module1_->forward(module0_->forward(x)); }
  bool is_conv() const { return named_children()["module0"]->as<torch::nn::Conv2dImpl>() != nullptr; }

 private:
  Slot<Layer> module0_, module1_;
};

class Factorize final : public Surgery {
 public:
  explicit Factorize(const FactorizeOptions& options = {}) : options_(options) {}
  std::string name() const override { return "Factorize"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
  std::string wanted() const override;

 private:
  std::shared_ptr<torch::nn::Module> FactorizedConv(const torch::nn::Conv2dImpl& conv) const;
  std::shared_ptr<torch::nn::Module> FactorizedLinear(const torch::nn::LinearImpl& linear) const;

  FactorizeOptions options_;
};

}  // namespace composer
