// CUDA graphs by LibTorch: kernels, copies from pinned memory and NCCL's collectives of one stream, and of those that
// wait for it, in one launch. The graph has memory of its own from the caching allocator, and takes random numbers from
// the default generator: its seed and offset at each replay, and the offset goes on as after eager calls. Source:
// ATen/cuda/CUDAGraph.h (2.11).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <memory>

#include "trainer/step/device_graph.h"

namespace composer {

// Calls of other threads that CUDA forbids during a capture (the loader pins memory, NCCL's watchdog asks events) do
// not spoil it: the mode is thread-local. The current stream must not be the default one.
class CudaGraphs final : public GraphCapture {
 public:
  void Begin() override;
  std::unique_ptr<DeviceGraph> End() override;
  // Gives the default generator a new state of the same seed: graphs captured before must not be replayed any more.
  void Abandon() override;

 private:
  std::unique_ptr<at::cuda::CUDAGraph> graph_;  // being captured
  c10::MempoolId_t pool_{};
  c10::DeviceIndex device_ = 0;
};

}  // namespace composer
