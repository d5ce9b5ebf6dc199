// Loads CUDA into a process that was linked against libtorch_cpu only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/cuda/cuda_module.h"

namespace composer {

// Loads libtorch_cuda.so first (globally, so that it registers its kernels), then composer_cuda.so from this program's
// folder or ../lib. Must be called before anything asks LibTorch for CUDA, because LibTorch remembers "no CUDA"
// forever. The module is never unloaded.
// kFailedPrecondition names the library and the loader's reason, or the versions that differ, or says that there is no
// GPU.
absl::StatusOr<CudaModule*> LoadCuda();

}  // namespace composer
