// Activation offload: what a block saves for backward waits in the host's memory instead of the GPU's.
//
//   block->Wrap(std::make_shared<ActivationOffload>(*block));
//
// Forward: each tensor that the block saves is copied to pinned memory on a stream of its own, beside compute; its GPU memory
// is free once the copy is done. Backward: copied back, on the stream that needs it. The host never waits. Parameters,
// and tensors below min_bytes, stay where they are. Strides are kept, so that results are those without offload, bit for bit.
// Together with activation checkpointing (wrapped first, so that this lies outside) the inputs of the blocks are what moves.
// Composer's activation_cpu_offload; source: torch/autograd/graph.py, save_on_cpu(pin_memory=True), which waits for the
// copies and moves parameters, too.
// On a CPU tensors are in the host's memory already: nothing is copied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "trainer/core/block.h"

namespace composer {

// Threads: Run is the forward's; copies back are made by the thread of autograd that asks.
class ActivationOffload final : public BlockWrapper {
 public:
  struct Options {
    int64_t min_bytes = 64 << 10;  // a smaller copy costs more time than it frees memory
    bool copy_on_cpu = false;      // tensors on a CPU, too, as copies: to test what a GPU does
  };
  // One object for one block, which must outlive its calls.
  explicit ActivationOffload(Block& block) : ActivationOffload(block, Options()) {}
  ActivationOffload(Block& block, Options options) : block_(block), options_(options) {}
  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override;

  // What went to the host and what stayed, since the object was made.
  struct Counts {
    int64_t moved = 0, stayed = 0, moved_bytes = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  class Policy;
  Block& block_;
  Options options_;
  Counts counts_;
};

}  // namespace composer
