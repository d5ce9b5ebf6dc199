// Layers are the replaceable parts of models. LibTorch's modules have no virtual forward, and a model that keeps a typed
// pointer to a submodule goes on calling it after torch's replace_module. A Layer has one virtual forward, and a model
// holds it in a Slot (slot.h), which always calls the module that is registered.
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

namespace composer {

// Replaceable is the base of what slots can hold.
class Replaceable {
 public:
  virtual ~Replaceable() = default;
  // Returns whether a slot holds this object, so that a replacement is used in its place.
  bool is_in_slot() const { return accepts_ != nullptr; }
  // Returns whether this object's slot can hold the module. Requires is_in_slot().
  bool slot_accepts(const torch::nn::Module& module) const { return accepts_(module); }
  // Makes this object the successor of one that leaves its slots.
  void TakeSlotsOf(const Replaceable& old) { accepts_ = old.accepts_; }

 private:
  template <typename T>
  friend class Slot;
  bool (*accepts_)(const torch::nn::Module&) = nullptr;
};

// Threads: the thread of the forward pass, and autograd's for recomputation in backward.
class Layer : public Replaceable {
 public:
  // Must not keep its input or its output in a member.
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

}  // namespace composer
