// A Slot holds a replaceable part of a module. It has no pointer of its own that could go stale: what it calls is what
// the parent has registered under its name, also after torch's replace_module or ReplaceLayers (replace_layers.h).
//
//   class Net final : public Model {
//     Net() : fc_(*this, "fc", std::make_shared<LinearLayer>(4, 2)) {}
//     Outputs forward(const Batch& batch) override { return fc_->forward(batch.inputs); }
//     Slot<Layer> fc_;
//   };
//
// A call costs a comparison more than a virtual call. T is Layer, AttentionCore, or a class derived from them whose
// members the parent needs (Slot<EmbeddingLayer>); a replacement must then be one, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "trainer/layers/layer.h"

namespace composer {

using ModuleChildren = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;

// The part of a slot that does not depend on its type.
class SlotPlace {
 public:
  SlotPlace() = default;
  // Registers the module with the parent, which must outlive this object and not move.
  SlotPlace(torch::nn::Module& parent, std::string name, std::shared_ptr<torch::nn::Module> module);

 protected:
  // Returns whether the registered module is not the one that Find found last.
  bool HasChanged() const {
    if (index_ >= children_->size()) return true;
    const std::shared_ptr<torch::nn::Module>& now = (*children_)[index_].value();
    return seen_.owner_before(now) || now.owner_before(seen_);
  }
  // Returns the registered module. Throws c10::ValueError if the parent has none of this name.
  torch::nn::Module& Find() const;
  // Throws c10::ValueError: the slot cannot hold the module.
  [[noreturn]] void Refuse(const torch::nn::Module& module) const;
  bool is_empty() const { return children_ == nullptr; }

 private:
  const ModuleChildren* children_ = nullptr;
  std::string parent_, name_;
  mutable size_t index_ = 0;
  mutable std::weak_ptr<torch::nn::Module> seen_;  // weak: a replaced module is freed at once
};

// Threads: those of Layer; no replacement may happen during a call.
template <typename T>
class Slot : public SlotPlace {
 public:
  Slot() = default;  // empty
  Slot(torch::nn::Module& parent, std::string name, std::shared_ptr<torch::nn::Module> module)
      : SlotPlace(parent, std::move(name), std::move(module)) {
    Bind();
  }

  explicit operator bool() const { return !is_empty(); }
  // Throws c10::ValueError naming the slot if what is registered is no T.
  T* operator->() const {
    if (HasChanged()) Bind();
    if constexpr (std::is_same_v<T, Layer>) return &part_->called();
    return part_;
  }
  T& operator*() const { return *operator->(); }

 private:
  static bool Accepts(const torch::nn::Module& module) { return dynamic_cast<const T*>(&module) != nullptr; }
  void Bind() const {
    torch::nn::Module& module = Find();
    part_ = dynamic_cast<T*>(&module);
    if (part_ == nullptr) Refuse(module);
    auto* const replaceable = static_cast<Replaceable*>(part_);
    replaceable->accepts_ = &Accepts;
    if constexpr (!std::is_same_v<T, Layer>) replaceable->is_known_to_parent_ = true;
  }
  mutable T* part_ = nullptr;
};

}  // namespace composer
