// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu_math.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace composer {

void SetGpuMath(bool tf32, bool deterministic) {
  at::globalContext().setFloat32MatmulPrecision(tf32 ? "high" : "highest");
  at::globalContext().setAllowTF32CuDNN(tf32);
  // Source: https://docs.nvidia.com/cuda/cublas, "Results reproducibility".
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace composer
