// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/replace_layers.h"

#include <c10/util/Exception.h>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "trainer/layers/layer.h"

namespace composer {
namespace {

using Module = torch::nn::Module;

// Replaces in one model. Keeps what was replaced alive until the end, so that no address is used twice.
class Surgeon {
 public:
  explicit Surgeon(const ReplacementPolicy& policy) : policy_(policy) {}

  void Visit(const std::string& prefix, Module& parent) {
    if (!visited_.insert(&parent).second) return;
    for (const auto& child : parent.named_children()) {
      if (child.value() == nullptr) continue;
      const std::string name = prefix.empty() ? child.key() : prefix + "." + child.key();
      if (const std::shared_ptr<Module> replacement = ReplacementOf(name, child.value())) {
        parent.replace_module(child.key(), replacement);
        replaced_.push_back(name);
      } else {
        Visit(name, *child.value());
      }
    }
  }
  std::vector<std::string> Replaced() && { return std::move(replaced_); }

 private:
  std::shared_ptr<Module> ReplacementOf(const std::string& name, const std::shared_ptr<Module>& module) {
    const auto [answer, is_new] = answers_.try_emplace(module, nullptr);
    if (!is_new) return answer->second;
    std::shared_ptr<Module> replacement = policy_(name, module);
    if (replacement == nullptr || replacement == module) return nullptr;
    const auto* old = dynamic_cast<const Replaceable*>(module.get());
    TORCH_CHECK_VALUE(old != nullptr && old->is_in_slot(), "layer ", name, " (", module->name(),
                      ") cannot be replaced: its model does not hold it in a Slot (trainer/layers/slot.h), so it would "
                      "go on using the old one");
    auto* successor = dynamic_cast<Replaceable*>(replacement.get());
    TORCH_CHECK_VALUE(successor != nullptr && old->slot_accepts(*replacement), "layer ", name, " (", module->name(),
                      ") cannot be replaced by a ", replacement->name(), ": its slot holds another kind of layer");
    successor->TakeSlotsOf(*old);
    replacement->train(module->is_training());
    return answers_[module] = replacement;
  }

  const ReplacementPolicy& policy_;
  absl::flat_hash_map<std::shared_ptr<Module>, std::shared_ptr<Module>> answers_;
  absl::flat_hash_set<const Module*> visited_;
  std::vector<std::string> replaced_;
};

}  // namespace

std::vector<std::string> ReplaceLayers(Module& model, const ReplacementPolicy& policy) {
  Surgeon surgeon(policy);
  surgeon.Visit("", model);
  return std::move(surgeon).Replaced();
}

}  // namespace composer
