// Loads CUDA into a process that was linked against libtorch_cpu only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/cuda/cuda_module.h"

namespace composer {

// First libtorch_cuda.so (globally, so that it registers its kernels), then composer_cuda.so next to this program or in ../lib. Must be called
// before anything asks LibTorch for CUDA: LibTorch remembers "no CUDA" for ever. The module is never unloaded.
// kFailedPrecondition naming the library and the loader's reason, or the versions that differ, or that there is no GPU.
absl::StatusOr<CudaModule*> LoadCuda();

}  // namespace composer
