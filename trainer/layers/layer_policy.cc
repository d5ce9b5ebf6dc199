// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/layer_policy.h"

#include "absl/container/flat_hash_set.h"

namespace composer {

std::vector<std::string> ReplaceLayers(torch::nn::Module& model, const std::vector<LayerPolicy>& policies,
                                       const ReplacementPolicy& own) {
  absl::flat_hash_set<const torch::nn::Module*> done;
  for (const LayerPolicy& policy : policies) {
    for (const auto& [name, made] : FindLayers(model, policy.made)) {
      for (const auto& part : made->modules()) done.insert(part.get());
    }
  }
  return ReplaceLayers(model, [&](const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
    if (done.contains(module.get())) return std::shared_ptr<torch::nn::Module>();
    for (const LayerPolicy& policy : policies) {
      if (std::shared_ptr<torch::nn::Module> made = policy.replace(name, module)) return made;
    }
    return own(name, module);
  });
}

}  // namespace composer
