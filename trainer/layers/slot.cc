// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/slot.h"

#include <c10/util/Exception.h>

namespace composer {
namespace {

ModuleChildren& ChildrenOf(torch::nn::Module& module);

// torch::nn::Module gives out copies of its children only, which are too slow for a forward. An explicit instantiation
// may name a private member, and the friend that it defines hands the member out.
template <ModuleChildren torch::nn::Module::* kMember>
struct ChildrenAccess {
  friend ModuleChildren& ChildrenOf(torch::nn::Module& module) { return module.*kMember; }
};
template struct ChildrenAccess<&torch::nn::Module::children_>;

}  // namespace

SlotPlace::SlotPlace(torch::nn::Module& parent, std::string name, std::shared_ptr<torch::nn::Module> module)
    : children_(&ChildrenOf(parent)), parent_(parent.name()), name_(std::move(name)) {
  parent.register_module(name_, std::move(module));
}

torch::nn::Module& SlotPlace::Find() const {
  for (index_ = 0; index_ < children_->size(); ++index_) {
    const auto& child = (*children_)[index_];
    if (child.key() != name_ || child.value() == nullptr) continue;
    seen_ = child.value();
    return *child.value();
  }
  TORCH_CHECK_VALUE(false, "slot ", name_, " of ", parent_, " is empty: its module was unregistered");
}

void SlotPlace::Refuse(const torch::nn::Module& module) const {
  TORCH_CHECK_VALUE(false, "slot ", name_, " of ", parent_, " cannot hold a ", module.name(),
                    ": the parent calls it as another kind of layer (trainer/layers/layer.h)");
}

}  // namespace composer
