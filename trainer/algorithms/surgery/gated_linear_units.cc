// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/gated_linear_units.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "absl/container/flat_hash_map.h"
#include "trainer/core/model.h"
#include "trainer/layers/torch_layers.h"

namespace composer {
namespace {

std::shared_ptr<torch::nn::Module> MakeActivation(GateActivation activation) {
  switch (activation) {
    case GateActivation::kGelu:
      return std::make_shared<GeluLayer>();
    case GateActivation::kGeluTanh:
      return std::make_shared<GeluLayer>(torch::nn::GELUOptions().approximate("tanh"));
    case GateActivation::kRelu:
      return std::make_shared<ReluLayer>();
    case GateActivation::kSilu:
      return std::make_shared<TorchLayer<torch::nn::SiLUImpl>>();
    case GateActivation::kSigmoid:
      return std::make_shared<SigmoidLayer>();
  }
  return nullptr;
}

// Returns null if the module has no such child.
template <typename T>
T* ChildOf(torch::nn::Module& module, const std::string& name) {
  const auto children = module.named_children();
  const auto* child = children.find(name);
  return child == nullptr ? nullptr : dynamic_cast<T*>(child->get());
}

// The first layer of a feed-forward network, its activation, and what takes their output if it is beside them.
struct FeedForwardNames {
  const char *fc, *act, *proj;
};
constexpr FeedForwardNames kFeedForwards[] = {{"fc", "gelu", "proj"},                      // gpt
                                              {"dense", "intermediate_act_fn", nullptr}};  // BERT, BertIntermediate

// Returns null if the module is not a feed-forward network.
const FeedForwardNames* NamesIn(torch::nn::Module& network) {
  for (const FeedForwardNames& names : kFeedForwards) {
    const auto* fc = ChildOf<torch::nn::LinearImpl>(network, names.fc);
    if (fc == nullptr || ChildOf<Layer>(network, names.act) == nullptr) continue;
    if (names.proj == nullptr) return &names;
    const auto* proj = ChildOf<torch::nn::LinearImpl>(network, names.proj);
    if (proj != nullptr && fc->options.out_features() == proj->options.in_features()) return &names;
  }
  return nullptr;
}

bool IsFeedForward(const std::string& /*name*/, const torch::nn::Module& module) {
  return NamesIn(const_cast<torch::nn::Module&>(module)) != nullptr;
}

}  // namespace

GatedLinear::GatedLinear(int64_t in, int64_t out, const GatedLinearUnitsOptions& options,
                         std::shared_ptr<torch::nn::Module> act)
    : gated_layer_(*this, "gated_layer",
                   std::make_shared<LinearLayer>(torch::nn::LinearOptions(in, out).bias(options.gated_layer_bias))),
      non_gated_layer_(
          *this, "non_gated_layer",
          std::make_shared<LinearLayer>(torch::nn::LinearOptions(in, out).bias(options.non_gated_layer_bias))),
      act_(*this, "act", std::move(act)) {}

absl::Status GatedLinearUnits::ChangeModel(Model& model, const ModelContext& context) {
  absl::flat_hash_map<const torch::nn::Module*, std::shared_ptr<torch::nn::Module>> replacements;
  for (const auto& [name, network] : FindLayers(model, IsFeedForward)) {
    const auto children = network->named_children();
    const FeedForwardNames& names = *NamesIn(*network);
    const auto& shape = children[names.fc]->as<torch::nn::LinearImpl>()->options;
    const auto act = options_.act_fn ? MakeActivation(*options_.act_fn) : children[names.act];
    replacements[children[names.fc].get()] =
        std::make_shared<GatedLinear>(shape.in_features(), shape.out_features(), options_, act);
    replacements[children[names.act].get()] = std::make_shared<TorchLayer<torch::nn::IdentityImpl>>();
  }
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const auto it = replacements.find(module.get());
    return it == replacements.end() ? std::shared_ptr<torch::nn::Module>() : it->second;
  });
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> GatedLinearUnits::LayersOf(const Model& model) const {
  return {{"gated_linear_units/num_layers", FindLayers(model, LayersOfType<GatedLinear>()).size()}};
}

}  // namespace composer
