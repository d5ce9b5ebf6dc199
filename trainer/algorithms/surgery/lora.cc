// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/lora.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "trainer/algorithms/surgery/lora_adapter.h"
#include "trainer/core/model.h"

namespace composer {
namespace {

constexpr const char* kAllLinear = "all-linear";

bool HasType(const torch::nn::Module& module, const char* type) {
  const std::vector<std::string> types = TypesOf(module);
  return std::find(types.begin(), types.end(), type) != types.end();
}
bool IsTransposed(const torch::nn::Module& module) { return HasType(module, "Conv1dLayer"); }
bool IsLinear(const torch::nn::Module& module) { return HasType(module, "Linear") || IsTransposed(module); }

bool IsTarget(const std::string& name, const torch::nn::Module& module, const std::string& target) {
  return name == target || absl::EndsWith(name, absl::StrCat(".", target)) ||
         (absl::StrContains(target, '*') && LayersNamed(target)(name, module));
}

// The chosen layers once each; parents of the others are among what can be chosen.
absl::StatusOr<NamedModules> Choose(const NamedModules& all, const char* key, const std::vector<std::string>& targets) {
  NamedModules chosen;
  std::set<std::string> ends;
  absl::flat_hash_set<const torch::nn::Module*> taken;
  for (const std::string& target : targets) {
    bool found = false;
    for (const auto& [name, module] : all) {
      ends.insert(name.substr(name.rfind('.') + 1));
      if (!IsTarget(name, *module, target)) continue;
      found = true;
      if (taken.insert(module.get()).second) chosen.emplace_back(name, module);
    }
    if (!found)
      return absl::InvalidArgumentError(absl::StrCat("lora: ", key, ": the model has no layer `", target, "`",
                                                     DidYouMean(target, {ends.begin(), ends.end()})));
  }
  return chosen;
}

// PEFT leaves out the output layer; here, as in all models, it is the last one.
absl::StatusOr<NamedModules> ChooseTargets(const NamedModules& all, const std::vector<std::string>& targets) {
  if (targets == std::vector<std::string>{kAllLinear}) {
    NamedModules linear;
    std::copy_if(all.begin(), all.end(), std::back_inserter(linear),
                 [](const auto& item) { return IsLinear(*item.second); });
    if (linear.size() < 2) return absl::InvalidArgumentError("lora: target_modules: the model has no linear layers");
    linear.pop_back();
    return linear;
  }
  ASSIGN_OR_RETURN(NamedModules chosen, Choose(all, "target_modules", targets));
  for (const auto& [name, module] : chosen) {
    if (!IsLinear(*module))
      return absl::InvalidArgumentError(
          absl::StrCat("lora: target_modules: `", name, "` is not a linear layer, but ", TypesOf(*module).front()));
  }
  return chosen;
}

}  // namespace

double LoraOptions::scale() const {
  const auto rank = static_cast<double>(r);
  return lora_alpha / (use_rslora ? std::sqrt(rank) : rank);
}

LoraLayer::LoraLayer(const torch::nn::Module& base, bool transposed, const LoraOptions& options)
    : dropout_(options.lora_dropout), scale_(options.scale()), transposed_(transposed) {
  const auto params = base.named_parameters(/*recurse=*/false);
  const at::Tensor* weight = params.find("weight");
  TORCH_CHECK_VALUE(weight != nullptr && weight->dim() == 2, "lora: ", base.name(), " has no matrix `weight`");
  weight_ = register_parameter("weight", *weight, /*requires_grad=*/false);
  if (const at::Tensor* bias = params.find("bias"); bias != nullptr)
    bias_ = register_parameter("bias", *bias, /*requires_grad=*/false);
  const int64_t in = weight->size(transposed ? 0 : 1), out = weight->size(transposed ? 1 : 0);
  const auto make = [](int64_t from, int64_t to) {
    return std::make_shared<LinearLayer>(torch::nn::LinearOptions(from, to).bias(false));
  };
  auto last = make(options.r, out);
  {
    const torch::NoGradGuard no_grad;
    last->weight.zero_();
  }
  lora_A_ = Slot<Layer>(*this, "lora_A", make(in, options.r));
  lora_B_ = Slot<Layer>(*this, "lora_B", std::move(last));
}

at::Tensor LoraLayer::forward(const at::Tensor& x) {
  const at::Tensor y = at::linear(x, transposed_ ? weight_.t() : weight_, bias_);
  const at::Tensor dropped = dropout_ == 0 ? x : at::dropout(x, dropout_, is_training());
  return y + lora_B_->forward(lora_A_->forward(dropped)) * scale_;
}

absl::Status Lora::ChangeModel(Model& model, const ModelContext& context) {
  LoraOptions options = options_;
  if (!options.adapter.empty()) {
    ASSIGN_OR_RETURN(options, ReadLoraAdapter(options_));
  }
  const NamedModules all = FindLayers(model, [](const std::string& name, const auto&) { return !name.empty(); });
  ASSIGN_OR_RETURN(const NamedModules targets, ChooseTargets(all, options.target_modules));
  ASSIGN_OR_RETURN(const NamedModules whole, Choose(all, "modules_to_save", options.modules_to_save));
  const bool transposed = !targets.empty() && IsTransposed(*targets.front().second);
  absl::flat_hash_set<const torch::nn::Module*> chosen;
  for (const auto& [name, module] : targets) chosen.insert(module.get());
  for (const at::Tensor& param : model.parameters()) param.set_requires_grad(false);
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    return chosen.contains(module.get()) ? std::make_shared<LoraLayer>(*module, IsTransposed(*module), options)
                                         : std::shared_ptr<torch::nn::Module>();
  });
  for (const auto& [name, module] : whole) {
    for (const at::Tensor& param : module->parameters()) param.set_requires_grad(true);
  }
  config_json_ = LoraConfigJson(options, targets, whole, transposed);
  return options.adapter.empty() ? absl::OkStatus() : TakeLoraAdapter(options.adapter, model);
}

absl::Status Lora::LoadState(absl::string_view json) {
  const auto saved = ParseJson(json);
  const auto own = ParseJson(config_json_);
  if (!saved.is_object()) return absl::DataLossError("the checkpoint's state of LoRA is no JSON object");
  for (const char* key : {"r", "lora_alpha", "use_rslora"}) {
    if (!saved.contains(key) || saved[key] != own[key])
      return absl::InvalidArgumentError(absl::StrCat("lora: ", key, " is ", own[key].dump(), "; the checkpoint has ",
                                                     saved.contains(key) ? saved[key].dump() : "none"));
  }
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> Lora::LayersOf(const Model& model) const {
  return {{"lora/num_lora_layers", FindLayers(model, LayersOfType<LoraLayer>()).size()}};
}

}  // namespace composer
