// SPDX-License-Identifier: Apache-2.0
#include "worker/cuda/cuda_graphs.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <utility>

namespace composer {
namespace {

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(std::unique_ptr<at::cuda::CUDAGraph> graph) : graph_(std::move(graph)) {}
  void Replay() override { graph_->replay(); }

 private:
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

// A capture that failed leaves the generator's state in the middle of one.
void RenewGenerator(c10::DeviceIndex device) {
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(device);
  at::Generator fresh = at::cuda::detail::createCUDAGenerator(device);
  fresh.set_current_seed(generator.current_seed());
  generator.graphsafe_set_state(fresh);
}

template <typename Fn>
void Ignoring(const Fn& fn) {
  try {
    fn();
  } catch (const std::exception&) {
    cudaGetLastError();  // else the next check of a launch would find it
  }
}

}  // namespace

void CudaGraphs::Begin() {
  device_ = c10::cuda::current_device();
  pool_ = at::cuda::graph_pool_handle();
  graph_ = std::make_unique<at::cuda::CUDAGraph>();
  graph_->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
}

std::unique_ptr<DeviceGraph> CudaGraphs::End() {
  try {
    graph_->capture_end();
  } catch (...) {
    Abandon();
    throw;
  }
  return std::make_unique<CudaGraph>(std::move(graph_));
}

// capture_end throws for a capture that an error has spoilt; the allocator may then not know yet that it is over.
void CudaGraphs::Abandon() {
  if (graph_ == nullptr) return;
  Ignoring([&] { graph_->capture_end(); });
  Ignoring([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device_, pool_); });
  Ignoring([&] { RenewGenerator(device_); });
  graph_.reset();
}

}  // namespace composer
