// Layers are the replaceable parts of models. LibTorch's modules have no virtual forward, and a model that keeps a
// typed pointer to a submodule goes on calling it after torch's replace_module. A Layer has one virtual forward, and a
// model holds it in a Slot (slot.h), which always calls the module that is registered.
//
// A layer is also a torch::nn::Module, and its parameters have torch's names:
//
//   class Scale final : public torch::nn::Module, public Layer {
//    public:
//     Scale() : factor_(register_parameter("factor", torch::ones({1}))) {}
//     at::Tensor forward(const at::Tensor& x) override { return x * factor_; }
//     …
//   };
//
// torch_layers.h has torch's own layers in this form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <utility>
#include <vector>

namespace composer {

// Replaceable is the base of what slots can hold.
class Replaceable {
 public:
  Replaceable() = default;
  Replaceable(const Replaceable& /*other*/) {}  // a copy is in no slot
  Replaceable& operator=(const Replaceable&) = delete;
  virtual ~Replaceable() = default;
  // Returns whether a slot holds this object, so that a replacement is used in its place.
  bool is_in_slot() const { return accepts_ != nullptr; }
  // Returns whether this object's slot can hold the module. Requires is_in_slot().
  bool slot_accepts(const torch::nn::Module& module) const { return accepts_(module); }
  // Returns whether a parent calls this object by more than Layer's functions, or reads its members.
  bool is_known_to_parent() const { return is_known_to_parent_; }
  // Makes this object the successor of one that leaves its slots.
  void TakeSlotsOf(const Replaceable& old) {
    accepts_ = old.accepts_;
    is_known_to_parent_ = old.is_known_to_parent_;
  }

 private:
  template <typename T>
  friend class Slot;
  bool (*accepts_)(const torch::nn::Module&) = nullptr;
  bool is_known_to_parent_ = false;
};

// Threads: the thread of the forward pass, and autograd's for recomputation in backward.
class Layer : public Replaceable {
 public:
  Layer() = default;
  Layer(const Layer& other) : Replaceable(other) {}  // nothing is around a copy
  // Must not keep its input or its output in a member.
  virtual at::Tensor forward(const at::Tensor& x) = 0;
  // The same with what else the block around the layer was given (core/block.h), such as attention's cache, behind x. A
  // layer that has no use for it leaves it out.
  virtual at::Tensor Run(const std::vector<at::Tensor>& inputs) { return forward(inputs.at(0)); }

  // What slots call: this layer, or what was put around it (core/block.h, WrapLayer).
  Layer& called() { return outer_ == nullptr ? *this : *outer_; }
  void SetOuter(std::unique_ptr<Layer> outer) { outer_ = std::move(outer); }

 private:
  std::unique_ptr<Layer> outer_;
};

}  // namespace composer
