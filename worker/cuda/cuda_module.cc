// SPDX-License-Identifier: Apache-2.0
#include "worker/cuda/cuda_module.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "worker/cuda/cuda_graphs.h"
#include "worker/cuda/kernels/operators.h"

namespace composer {
namespace {

class RealCudaModule final : public CudaModule {
 public:
  int device_count() const override { return c10::cuda::device_count(); }
  void SetDevice(int index) override { c10::cuda::set_device(static_cast<c10::DeviceIndex>(index)); }
  int capability(int index) const override {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index));
    return properties->major * 10 + properties->minor;
  }
  void RegisterKernels() override {
    static auto& library =
        *new torch::Library(torch::Library::IMPL, "composer", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    device::RegisterOperators(library, [] { return static_cast<void*>(c10::cuda::getCurrentCUDAStream().stream()); });
  }
  c10::intrusive_ptr<c10d::Backend> CreateNcclGroup(c10::intrusive_ptr<c10d::Store> store,
                                                    const NcclOptions& options) override {
    auto nccl = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    nccl->timeout = options.timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), options.rank, options.world_size, nccl);
  }
  GraphCapture& graphs() override { return graphs_; }
  std::string FlightRecord() override {
    return c10d::dump_nccl_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false);
  }

 private:
  CudaGraphs graphs_;
};

}  // namespace
}  // namespace composer

const char* composer_cuda_version() { return COMPOSER_VERSION; }

composer::CudaModule* composer_cuda_module() {
  static composer::RealCudaModule& module = *new composer::RealCudaModule;
  return &module;
}
