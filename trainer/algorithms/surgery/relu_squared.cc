// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/relu_squared.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/core/model.h"

namespace composer {
namespace {

// Returns "" for a module that is none of the activations.
std::string ActivationKind(const torch::nn::Module& module) {
  if (module.as<torch::nn::GELUImpl>() != nullptr) return "gelu";
  if (module.as<torch::nn::ReLUImpl>() != nullptr) return "relu";
  if (module.as<torch::nn::SiLUImpl>() != nullptr) return "silu";
  return "";
}

}  // namespace

at::Tensor ReluSquaredLayer::forward(const at::Tensor& x) { return at::relu(x).square(); }

absl::Status ReluSquared::ChangeModel(Model& model, const ModelContext& context) {
  std::set<std::string> others;
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const std::string kind = ActivationKind(*module);
    const bool chosen = std::find(replace_.begin(), replace_.end(), kind) != replace_.end();
    if (!chosen && !kind.empty()) others.insert(kind);
    return chosen ? std::make_shared<ReluSquaredLayer>() : std::shared_ptr<torch::nn::Module>();
  });
  if (PoliciesFor(*this, context).empty() && FindLayers(model, LayersOfType<ReluSquaredLayer>()).empty())
    return absl::InvalidArgumentError(absl::StrCat("relu_squared: replace: [", absl::StrJoin(replace_, ", "), "], but ",
                                                   ClassNameOf(model), " has ",
                                                   others.empty() ? "no activations" : absl::StrJoin(others, ", ")));
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> ReluSquared::LayersOf(const Model& model) const {
  return {{"relu_squared/num_layers", FindLayers(model, LayersOfType<ReluSquaredLayer>()).size()}};
}

}  // namespace composer
