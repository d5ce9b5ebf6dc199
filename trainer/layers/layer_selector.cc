// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/layer_selector.h"

#include <fnmatch.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"

namespace composer {
namespace {

using Module = torch::nn::Module;

template <typename T>
bool Is(const Module& module) {
  return dynamic_cast<const T*>(&module) != nullptr;
}

// torch's layers that others may be derived from.
struct TorchType {
  const char* name;
  bool (*is)(const Module&);
};
constexpr TorchType kTorchTypes[] = {
    {"Linear", Is<torch::nn::LinearImpl>},
    {"Conv1d", Is<torch::nn::Conv1dImpl>},
    {"Conv2d", Is<torch::nn::Conv2dImpl>},
    {"Conv3d", Is<torch::nn::Conv3dImpl>},
    {"Embedding", Is<torch::nn::EmbeddingImpl>},
    {"LayerNorm", Is<torch::nn::LayerNormImpl>},
    {"GroupNorm", Is<torch::nn::GroupNormImpl>},
    {"BatchNorm1d", Is<torch::nn::BatchNorm1dImpl>},
    {"BatchNorm2d", Is<torch::nn::BatchNorm2dImpl>},
    {"Dropout", Is<torch::nn::DropoutImpl>},
    {"ReLU", Is<torch::nn::ReLUImpl>},
    {"GELU", Is<torch::nn::GELUImpl>},
    {"SiLU", Is<torch::nn::SiLUImpl>},
    {"Sigmoid", Is<torch::nn::SigmoidImpl>},
    {"MaxPool2d", Is<torch::nn::MaxPool2dImpl>},
    {"AvgPool2d", Is<torch::nn::AvgPool2dImpl>},
};

// Returns "GptBlock" for "composer::(anonymous namespace)::GptBlock", "" for a template.
std::string ClassName(const std::string& full) {
  if (absl::EndsWith(full, ">")) return "";
  const size_t colons = full.rfind("::");
  return colons == std::string::npos ? full : full.substr(colons + 2);
}

std::string NothingChosen(const Module& model, const std::string& text) {
  std::set<std::string> types, names;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    names.insert(item.key());
    for (std::string& type : TypesOf(*item.value())) types.insert(std::move(type));
  }
  std::vector<std::string> known(types.begin(), types.end());
  const std::string shown = absl::StrJoin(known, ", ");
  known.insert(known.end(), names.begin(), names.end());
  return absl::StrCat("`", text, "` chooses no layer of ", ClassName(model.name()), DidYouMean(text, known),
                      ": it is neither a type, of which there are ", shown, ", nor a pattern of a name, such as ",
                      names.empty() ? "layers.0" : *names.rbegin());
}

}  // namespace

LayerSelector LayersNamed(std::string pattern) {
  return [pattern = std::move(pattern)](const std::string& name, const Module&) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  };
}

NamedModules FindLayers(const Module& model, const LayerSelector& selector) {
  NamedModules found;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (selector(item.key(), *item.value())) found.emplace_back(item.key(), item.value());
  }
  return found;
}

std::vector<std::string> TypesOf(const Module& module) {
  std::vector<std::string> types;
  if (std::string own = ClassName(module.name()); !own.empty())
    types.emplace_back(absl::StartsWith(module.name(), "torch::nn::") ? absl::StripSuffix(own, "Impl") : own);
  for (const TorchType& type : kTorchTypes) {
    if (type.is(module) && (types.empty() || types[0] != type.name)) types.emplace_back(type.name);
  }
  return types;
}

absl::StatusOr<NamedModules> ChooseLayers(const Module& model, const LayerChoice& choice) {
  std::vector<bool> used(choice.texts.size(), false);
  absl::flat_hash_set<const Module*> seen;
  NamedModules chosen;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const std::vector<std::string> types = TypesOf(*item.value());
    bool wanted = choice.predicate != nullptr && choice.predicate(item.key(), *item.value());
    for (size_t i = 0; i < choice.texts.size(); ++i) {
      const std::string& text = choice.texts[i];
      if (std::find(types.begin(), types.end(), text) == types.end() &&
          fnmatch(text.c_str(), item.key().c_str(), 0) != 0)
        continue;
      used[i] = wanted = true;
    }
    if (wanted && seen.insert(item.value().get()).second) chosen.emplace_back(item.key(), item.value());
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) return absl::InvalidArgumentError(NothingChosen(model, choice.texts[i]));
  }
  if (chosen.empty() && !choice.empty())
    return absl::InvalidArgumentError(absl::StrCat("the predicate chooses no layer of ", ClassName(model.name())));
  return chosen;
}

}  // namespace composer
