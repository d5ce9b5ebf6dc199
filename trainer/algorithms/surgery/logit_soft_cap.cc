// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/logit_soft_cap.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "trainer/core/model.h"

namespace composer {

at::Tensor SoftCap(const at::Tensor& logits, double cap) { return at::tanh(logits / cap) * cap; }

SoftCappedLinear::SoftCappedLinear(const torch::nn::LinearImpl& linear, double cap) : cap_(cap) {
  weight_ = register_parameter("weight", linear.weight, linear.weight.requires_grad());
  if (linear.bias.defined()) bias_ = register_parameter("bias", linear.bias, linear.bias.requires_grad());
}

absl::Status LogitSoftCap::ChangeModel(Model& model, const ModelContext& context) {
  const LayerSelector is_chosen = LayersNamed(options_.layer);
  size_t found = 0;
  std::string last;
  ReplaceLayersOf(model, context,
                  [&](const std::string& name,
                      const std::shared_ptr<torch::nn::Module>& module) -> std::shared_ptr<torch::nn::Module> {
                    const auto* linear = module->as<torch::nn::LinearImpl>();
                    if (linear == nullptr) return nullptr;
                    last = name;
                    if (!is_chosen(name, *module)) return nullptr;
                    ++found;
                    return std::make_shared<SoftCappedLinear>(*linear, options_.cap);
                  });
  if (found == 1 || !PoliciesFor(*this, context).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "logit_soft_cap: layer: ", options_.layer, " is to be the one linear layer that makes the logits; ",
      ClassNameOf(model), " has ", found, " of that name",
      last.empty() ? "" : absl::StrCat(" (its last one is `", last, "`)"), "; a tied head is not a layer"));
}

std::vector<std::pair<std::string, size_t>> LogitSoftCap::LayersOf(const Model& model) const {
  return {{"logit_soft_cap/num_layers", FindLayers(model, LayersOfType<SoftCappedLinear>()).size()}};
}

}  // namespace composer
