// A LayerPolicy says what takes the place of the layers of one class in one algorithm's surgery, for classes that the
// algorithm does not know: a plugin's own convolution in blurpool, say. A run's policies are a registry by algorithm
// and class, which plugins extend (job/plugin/plugin_registry.h):
//
//   registry.AddLayerPolicy(MakeLayerPolicy<WideConv, BlurredWideConv>(
//       "blurpool", "wide_conv", [](const std::string& name, const std::shared_ptr<WideConv>& conv) {
//         return std::make_shared<BlurredWideConv>(conv);
//       }));
//
// Source: mosaicml composer/algorithms/alibi/attention_surgery_functions/utils.py, PolicyRegistry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/layers/replace_layers.h"

namespace composer {

struct LayerPolicy {
  std::string algorithm;      // its name in a job, "blurpool", or Algorithm::name(), "BlurPool"
  std::string name;           // the policy's own; its layers are counted under it
  ReplacementPolicy replace;  // null for layers of other classes
  LayerSelector made;         // what `replace` makes, so that nothing in it is replaced once more
};

// `replace` gets layers of class Old, or derived from it, and returns a New or null, which leaves the layer.
template <typename Old, typename New>
LayerPolicy MakeLayerPolicy(
    std::string algorithm, std::string name,
    std::function<std::shared_ptr<New>(const std::string& name, const std::shared_ptr<Old>& layer)> replace) {
  LayerPolicy policy{std::move(algorithm), std::move(name), nullptr, LayersOfType<New>()};
  if (replace == nullptr) return policy;
  policy.replace = [replace = std::move(replace)](
                       const std::string& layer,
                       const std::shared_ptr<torch::nn::Module>& module) -> std::shared_ptr<torch::nn::Module> {
    const auto old = std::dynamic_pointer_cast<Old>(module);
    return old == nullptr ? nullptr : replace(layer, old);
  };
  return policy;
}

// Replaces layers as ReplaceLayers does, by the first policy that has a replacement, else by `own`. What a policy has
// made, now or earlier, is left as it is with all that is in it.
std::vector<std::string> ReplaceLayers(torch::nn::Module& model, const std::vector<LayerPolicy>& policies,
                                       const ReplacementPolicy& own);

}  // namespace composer
