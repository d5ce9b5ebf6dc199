// ActivationOffload keeps what a block saves for backward in host memory instead of GPU memory.
//
//   block->Wrap(std::make_shared<ActivationOffload>(*block));
//
// In forward, each tensor that the block saves is copied to pinned memory on a separate stream, in parallel with
// compute; its GPU memory is free once the copy is done. In backward it is copied back on the stream that needs it. The
// host never waits. Parameters, and tensors below min_bytes, stay where they are. Strides are kept, so results are the
// same as without offload, bit for bit. Together with activation checkpointing (wrapped first, so that this wrapper
// lies outside) only the inputs of the blocks move. This is Composer's activation_cpu_offload; source:
// torch/autograd/graph.py, save_on_cpu(pin_memory=True), which waits for the copies and moves parameters, too. On a CPU
// tensors are in host memory already and nothing is copied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "trainer/core/block.h"

namespace composer {

// Threads: Run is called on the forward's thread; the autograd thread that asks copies back.
class ActivationOffload final : public BlockWrapper {
 public:
  struct Options {
    int64_t min_bytes = 64 << 10;  // a smaller copy costs more time than it frees memory
    bool copy_on_cpu = false;      // copy tensors on a CPU, too, to test what a GPU does
  };
  // Each block needs an object of its own. The block must outlive its calls.
  explicit ActivationOffload(torch::nn::Module& block) : ActivationOffload(block, Options()) {}
  ActivationOffload(torch::nn::Module& block, Options options) : block_(block), options_(options) {}
  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override;

  // Counts says what was moved to the host and what stayed, since the object was made.
  struct Counts {
    int64_t moved = 0, stayed = 0, moved_bytes = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  class Policy;
  torch::nn::Module& block_;
  Options options_;
  Counts counts_;
};

}  // namespace composer
