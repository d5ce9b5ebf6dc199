// What a GPU run needs of CUDA and NCCL, behind one C entry point: a separate plugin (composer_cuda.so), so that a CPU
// run loads no CUDA library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/step/device_graph.h"

namespace composer {

struct NcclOptions {
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{300000};
};

// Not thread-safe. Methods throw c10::Error.
class CudaModule {
 public:
  virtual ~CudaModule() = default;
  virtual int device_count() const = 0;
  // Sets the process's default device from here on.
  virtual void SetDevice(int index) = 0;
  // Creates an NCCL group over the current device; its collectives run on a high-priority stream. An error is reported
  // by the collective and never ends the process.
  virtual c10::intrusive_ptr<c10d::Backend> CreateNcclGroup(c10::intrusive_ptr<c10d::Store> store,
                                                            const NcclOptions& options) = 0;
  // The GPU's compute capability, 90 for 9.0.
  virtual int capability(int index) const = 0;
  // Makes our own kernels those of the operators composer::… on CUDA from here on (trainer/kernels/operators.h). Must
  // be called once at most.
  virtual void RegisterKernels() = 0;
  // Of the current device at each Begin; lives as long as the module.
  virtual GraphCapture& graphs() = 0;
  // Returns what NCCL's flight recorder knows of all groups, as JSON. Any thread.
  virtual std::string FlightRecord() = 0;
};

}  // namespace composer

// The plugin's entry points. The version must equal the loader's COMPOSER_VERSION; the module lives as long as the
// process.
extern "C" const char* composer_cuda_version();
extern "C" composer::CudaModule* composer_cuda_module();
