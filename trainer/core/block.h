// A Block is a part of a model that runs as a whole: a transformer layer, a residual block. A model marks its parts by
// deriving them from Block; FSDP then shards the parameters of each as one unit, and activation checkpointing
// recomputes each in backward. LibTorch's modules have no forward hooks, so the block itself hands its forward to its
// wrappers:
//
//   class Layer final : public Block {
//    protected:
//     at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return mlp_->forward(inputs[0]); }
//   };
//   x = layer->forward(x);             // in the model's forward; with further inputs: layer->Run({x, mask})
//
// An unwrapped call costs as much as a ModuleCall (module_call.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <vector>

namespace composer {

class Block;

// Every call of a wrapped block goes through its wrappers. Threads: the thread of the forward pass, and autograd's
// threads for calls that start in backward.
class BlockWrapper {
 public:
  virtual ~BlockWrapper() = default;
  // Runs everything below this wrapper. It may be called any number of times, also after Run has returned (to recompute
  // in backward), as long as the block lives.
  class Inner {
   public:
    Inner(Block& block, size_t wrappers) : block_(&block), wrappers_(wrappers) {}
    at::Tensor operator()(const std::vector<at::Tensor>& inputs) const;
    Block& block() const { return *block_; }

   private:
    Block* block_;
    size_t wrappers_;  // the number of wrappers still below
  };
  // Returns the block's output.
  virtual at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) = 0;
};

class Block : public torch::nn::Module {
 public:
  // inputs[0] is the main activation; the others (a mask, an embedding of the time step) may be undefined.
  at::Tensor Run(const std::vector<at::Tensor>& inputs);
  at::Tensor forward(const at::Tensor& x) { return Run({x}); }

  // Adds a wrapper outside the existing ones: the last one added is the outermost.
  void Wrap(std::shared_ptr<BlockWrapper> wrapper) { wrappers_.push_back(std::move(wrapper)); }
  bool is_wrapped() const { return !wrappers_.empty(); }

  // Decides whether FSDP makes this block a unit, whatever its type and size (shard_units.h). If unset, the options
  // decide. Composer's attribute is `_fsdp_wrap`.
  void SetFsdpWrap(bool wrap) { fsdp_wrap_ = wrap; }
  std::optional<bool> fsdp_wrap() const { return fsdp_wrap_; }

 protected:
  // Implements the block's own forward. Must not keep its inputs or parameters in members: a wrapper may call it again.
  virtual at::Tensor Compute(const std::vector<at::Tensor>& inputs) = 0;

 private:
  friend class BlockWrapper::Inner;
  at::Tensor RunBelow(size_t wrappers, const std::vector<at::Tensor>& inputs);

  std::vector<std::shared_ptr<BlockWrapper>> wrappers_;
  std::optional<bool> fsdp_wrap_;
};

}  // namespace composer
