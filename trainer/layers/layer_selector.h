// Selectors choose the layers of a model: for surgery, FSDP's units, activation checkpointing, tensor parallelism and
// precision alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace composer {

// Chooses modules by their dotted name in the model and themselves.
using LayerSelector = std::function<bool(const std::string& name, const torch::nn::Module& module)>;

// Selects what is a T: a class of LibTorch (torch::nn::Conv2dImpl) or of Composer's, or one derived from it.
template <typename T>
LayerSelector LayersOfType() {
  return [](const std::string&, const torch::nn::Module& module) { return dynamic_cast<const T*>(&module) != nullptr; };
}
// Selects by an fnmatch pattern, in which `*` also matches dots: "transformer.blocks.*.mlp.fc".
LayerSelector LayersNamed(std::string pattern);

using NamedModules = std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>>;

// Returns the chosen modules, parents before their children; one with several parents under each of its names.
NamedModules FindLayers(const torch::nn::Module& model, const LayerSelector& selector);

// Returns the types by which people choose a module: the name of its class without namespaces ("GptBlock"), and torch's
// name of the layer that it is or is derived from ("Linear").
std::vector<std::string> TypesOf(const torch::nn::Module& module);

// A choice of layers as people write it. The model itself is never chosen.
struct LayerChoice {
  std::vector<std::string> texts;  // types (TypesOf) and patterns of names (LayersNamed)
  LayerSelector predicate;         // chooses further ones; may be null
  bool empty() const { return texts.empty() && predicate == nullptr; }
};

// Returns the chosen layers once each, under their first names, parents before their children. kInvalidArgument when a
// text chooses nothing, with the nearest type or name, or when the predicate alone is given and chooses nothing.
absl::StatusOr<NamedModules> ChooseLayers(const torch::nn::Module& model, const LayerChoice& choice);

}  // namespace composer
