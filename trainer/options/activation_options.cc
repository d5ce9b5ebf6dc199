// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/activation_options.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {

ModulePointers BlocksOf(const torch::nn::Module& model) {
  ModulePointers blocks;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (dynamic_cast<const Block*>(module.get()) != nullptr) blocks.push_back(module);
  }
  return blocks;
}

absl::StatusOr<ModulePointers> CandidatesOf(const torch::nn::Module& model, const BlockChoice& choice) {
  ModulePointers candidates;
  if (choice.layers.empty()) {
    candidates = BlocksOf(model);
    if (!candidates.empty()) return candidates;
    return absl::InvalidArgumentError(
        absl::StrCat("model ", model.name(),
                     " names no blocks: its repeated parts must derive from composer::Block (trainer/core/block.h), or "
                     "layers must be chosen by type or name (activation_checkpointing_target)"));
  }
  ASSIGN_OR_RETURN(const NamedModules chosen, ChooseLayers(model, choice.layers));
  for (const auto& [name, module] : chosen) {
    const std::string why_not = WhyNotWrapped(*module);
    if (!why_not.empty())
      return absl::InvalidArgumentError(absl::StrCat("layer ", name, " (", module->name(), ") cannot be: ", why_not));
    candidates.push_back(module);
  }
  return candidates;
}

}  // namespace composer
