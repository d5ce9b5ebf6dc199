// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/factorize.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/model.h"

namespace composer {
namespace {

// The last layer computes what is left of the old one: its bias, which a convolution gets if it has none, as
// Composer's.
void KeepBias(at::Tensor& bias, const at::Tensor& old) {
  if (!bias.defined()) return;
  old.defined() ? bias.copy_(old) : bias.zero_();
}

}  // namespace

int64_t LatentSize(double latent, int64_t in, int64_t out) {
  if (latent >= 1) return static_cast<int64_t>(latent);
  return std::max<int64_t>(1, static_cast<int64_t>(latent * static_cast<double>(std::min(in, out))));
}

// ceil(in out / (in + out) - 1)
int64_t LargestUsefulRank(int64_t in, int64_t out) { return (in * out - 1) / (in + out); }

LowRank FactorizeMatrix(const at::Tensor& weight, int64_t rank) {
  const auto [u, s, v] = at::linalg_svd(weight, /*full_matrices=*/false);
  const at::Tensor root = s.slice(0, 0, rank).sqrt();
  return {u.slice(1, 0, rank) * root, v.slice(0, 0, rank) * root.unsqueeze(1)};
}

std::shared_ptr<torch::nn::Module> Factorize::FactorizedConv(const torch::nn::Conv2dImpl& conv) const {
  const auto& old = conv.options;
  const int64_t in = old.in_channels(), out = old.out_channels(),
                pixels = old.kernel_size()->at(0) * old.kernel_size()->at(1);
  const int64_t rank = LatentSize(options_.latent_channels, in, out);
  if (old.groups() > 1 || std::min(in, out) < options_.min_channels || rank > LargestUsefulRank(in * pixels, out))
    return nullptr;
  torch::nn::Conv2dOptions first(in, rank, old.kernel_size());
  first.stride(old.stride())
      .padding(old.padding())
      .dilation(old.dilation())
      .padding_mode(old.padding_mode())
      .bias(false);
  auto module0 = std::make_shared<Conv2dLayer>(first);
  auto module1 = std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(rank, out, 1));
  if (options_.svd_init) {
    const torch::NoGradGuard no_grad;
    const LowRank factors = FactorizeMatrix(conv.weight.flatten(1), rank);
    module0->weight.copy_(factors.in.view_as(module0->weight));
    module1->weight.copy_(factors.out.view_as(module1->weight));
    KeepBias(module1->bias, conv.bias);
  }
  return std::make_shared<FactorizedLayer>(module0, module1);
}

std::shared_ptr<torch::nn::Module> Factorize::FactorizedLinear(const torch::nn::LinearImpl& linear) const {
  const int64_t in = linear.options.in_features(), out = linear.options.out_features();
  const int64_t rank = LatentSize(options_.latent_features, in, out);
  if (std::min(in, out) < options_.min_features || rank > LargestUsefulRank(in, out)) return nullptr;
  auto module0 = std::make_shared<LinearLayer>(torch::nn::LinearOptions(in, rank).bias(false));
  auto module1 = std::make_shared<LinearLayer>(torch::nn::LinearOptions(rank, out).bias(linear.bias.defined()));
  if (options_.svd_init) {
    const torch::NoGradGuard no_grad;
    const LowRank factors = FactorizeMatrix(linear.weight, rank);
    module0->weight.copy_(factors.in);
    module1->weight.copy_(factors.out);
    KeepBias(module1->bias, linear.bias);
  }
  return std::make_shared<FactorizedLayer>(module0, module1);
}

absl::Status Factorize::ChangeModel(Model& model, const ModelContext& context) {
  // The factors are not factorized again.
  absl::flat_hash_set<const torch::nn::Module*> done;
  for (const auto& [name, changed] : FindLayers(model, LayersOfType<FactorizedLayer>())) {
    for (const auto& child : changed->children()) done.insert(child.get());
  }
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    std::shared_ptr<torch::nn::Module> replacement;
    if (done.contains(module.get())) return replacement;
    if (const auto* conv = module->as<torch::nn::Conv2dImpl>(); conv != nullptr && options_.factorize_convs)
      replacement = FactorizedConv(*conv);
    if (const auto* linear = module->as<torch::nn::LinearImpl>(); linear != nullptr && options_.factorize_linears)
      replacement = FactorizedLinear(*linear);
    return replacement;
  });
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> Factorize::LayersOf(const Model& model) const {
  std::vector<std::pair<std::string, size_t>> counts = {{"factorize/num_conv2d_replacements", 0},
                                                        {"factorize/num_linear_replacements", 0}};
  for (const auto& [name, layer] : FindLayers(model, LayersOfType<FactorizedLayer>()))
    ++counts[layer->as<FactorizedLayer>()->is_conv() ? 0 : 1].second;
  return counts;
}

std::string Factorize::wanted() const {
  return absl::StrCat("convolution of at least ", options_.min_channels, " channels and no linear layer of at least ",
                      options_.min_features, " features whose parts would be smaller than it");
}

}  // namespace composer
