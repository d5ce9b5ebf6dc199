// A part of a model that runs as a whole: a layer of a transformer, a residual block. A model marks its parts by deriving
// them from Block; FSDP then shards the parameters of each as one unit, and activation checkpointing recomputes each in
// backward. LibTorch's modules have no forward hooks, so the block itself hands its forward to who wraps it:
//
//   class Layer final : public Block {
//    protected:
//     at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return mlp_->forward(inputs[0]); }
//   };
//   x = layer->forward(x);             // in the model's forward; with further inputs: layer->Run({x, mask})
//
// Unwrapped, a call costs what a ModuleCall costs (module_call.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <vector>

namespace composer {

class Block;

// What a call of a block goes through. Threads: the forward's, and autograd's for what it starts in backward.
class BlockWrapper {
 public:
  virtual ~BlockWrapper() = default;
  // Returns the block's output. inner: calls what lies below this wrapper, any number of times, also after Run has
  // returned (a recomputation in backward), as long as the block lives.
  class Inner {
   public:
    Inner(Block& block, size_t wrappers) : block_(&block), wrappers_(wrappers) {}
    at::Tensor operator()(const std::vector<at::Tensor>& inputs) const;
    Block& block() const { return *block_; }

   private:
    Block* block_;
    size_t wrappers_;  // how many still lie below
  };
  virtual at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) = 0;
};

class Block : public torch::nn::Module {
 public:
  // inputs[0] is the activation that flows through; the others (a mask, an embedding of the time step) may be undefined.
  at::Tensor Run(const std::vector<at::Tensor>& inputs);
  at::Tensor forward(const at::Tensor& x) { return Run({x}); }

  // Puts a wrapper around the block and those that it has: the last one given is the outermost.
  void Wrap(std::shared_ptr<BlockWrapper> wrapper) { wrappers_.push_back(std::move(wrapper)); }
  bool is_wrapped() const { return !wrappers_.empty(); }

  // Is it a unit of FSDP's, whatever its type and size (shard_units.h)? Not set: as the options say. Composer's attribute
  // `_fsdp_wrap`.
  void SetFsdpWrap(bool wrap) { fsdp_wrap_ = wrap; }
  std::optional<bool> fsdp_wrap() const { return fsdp_wrap_; }

 protected:
  // The block's own forward. Must not keep its inputs or parameters in members: a wrapper may call it again.
  virtual at::Tensor Compute(const std::vector<at::Tensor>& inputs) = 0;

 private:
  friend class BlockWrapper::Inner;
  at::Tensor RunBelow(size_t wrappers, const std::vector<at::Tensor>& inputs);

  std::vector<std::shared_ptr<BlockWrapper>> wrappers_;
  std::optional<bool> fsdp_wrap_;
};

}  // namespace composer
