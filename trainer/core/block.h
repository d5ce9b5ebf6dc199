// A Block is a part of a model that runs as a whole: a transformer layer, a residual block. A model marks its parts by
// deriving them from Block; FSDP then shards the parameters of each as one unit, and activation checkpointing
// recomputes each in backward. LibTorch's modules have no forward hooks, so the block itself hands its forward to its
// wrappers:
//
//   class Part final : public Block {
//    protected:
//     at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return mlp_->forward(inputs[0]); }
//   };
//   x = part->forward(x);             // in the model's forward; with further inputs: part->Run({x, mask})
//
// An unwrapped call costs as much as a ModuleCall (module_call.h). A block is a Layer, so that slots can hold it. Other
// layers know nothing of wrappers; their slots call them through what WrapLayer put around them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/layers/layer.h"

namespace composer {

class WrappedCall;

// Every call of a wrapped block or layer goes through its wrappers. Threads: the thread of the forward pass, and
// autograd's threads for calls that start in backward.
class BlockWrapper {
 public:
  virtual ~BlockWrapper() = default;
  // Runs everything below this wrapper. It may be called any number of times, also after Run has returned (to recompute
  // in backward), as long as the block lives.
  class Inner {
   public:
    Inner(WrappedCall& call, size_t wrappers) : call_(&call), wrappers_(wrappers) {}
    at::Tensor operator()(const std::vector<at::Tensor>& inputs) const;
    // The block or layer that is wrapped.
    torch::nn::Module& module() const;

   private:
    WrappedCall* call_;
    size_t wrappers_;  // the number of wrappers still below
  };
  // Returns the block's output.
  virtual at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) = 0;
};

// A WrappedCall is a forward with wrappers around it.
class WrappedCall {
 public:
  // Adds a wrapper outside the existing ones: the last one added is the outermost.
  void Wrap(std::shared_ptr<BlockWrapper> wrapper) { wrappers_.push_back(std::move(wrapper)); }
  bool is_wrapped() const { return !wrappers_.empty(); }

 protected:
  ~WrappedCall() = default;
  at::Tensor RunWrapped(const std::vector<at::Tensor>& inputs) { return RunBelow(wrappers_.size(), inputs); }
  // Implements the forward itself. Must not keep its inputs or parameters in members: a wrapper may call it again.
  virtual at::Tensor Compute(const std::vector<at::Tensor>& inputs) = 0;
  virtual torch::nn::Module& wrapped_module() = 0;

 private:
  friend class BlockWrapper::Inner;
  at::Tensor RunBelow(size_t wrappers, const std::vector<at::Tensor>& inputs);

  std::vector<std::shared_ptr<BlockWrapper>> wrappers_;
};

class Block : public torch::nn::Module, public Layer, public WrappedCall {
 public:
  // inputs[0] is the main activation; the others (a mask, an embedding of the time step) may be undefined.
  at::Tensor Run(const std::vector<at::Tensor>& inputs) final;
  at::Tensor forward(const at::Tensor& x) final { return Run({x}); }

  // Decides whether FSDP makes this block a unit, whatever its type and size (shard_units.h). If unset, the options
  // decide. Composer's attribute is `_fsdp_wrap`.
  void SetFsdpWrap(bool wrap) { fsdp_wrap_ = wrap; }
  std::optional<bool> fsdp_wrap() const { return fsdp_wrap_; }

 private:
  torch::nn::Module& wrapped_module() final { return *this; }

  std::optional<bool> fsdp_wrap_;
};

// Returns why nothing can be put around the module's calls ("its model does not hold it in a Slot …"), "" if it can be:
// it is a Block, or a Layer whose slots call it by Layer's functions alone.
std::string WhyNotWrapped(const torch::nn::Module& module);

// Adds a wrapper outside the existing ones. Throws c10::ValueError with WhyNotWrapped's reason.
void WrapLayer(torch::nn::Module& module, std::shared_ptr<BlockWrapper> wrapper);

}  // namespace composer
