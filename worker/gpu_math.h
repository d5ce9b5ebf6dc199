// How a GPU computes: settings of LibTorch and its libraries that hold for the whole process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer {

// tf32: products and convolutions of float32 may round their factors to TensorFloat32 (10 bits of mantissa), which is
// several times faster. deterministic: cuBLAS takes the fixed workspace without which its sums may differ from run to
// run (CUBLAS_WORKSPACE_CONFIG, unless the user has set it); the trainer asks the rest of LibTorch for determinism.
// Must be called before the first product on a GPU, and before other threads read the environment.
void SetGpuMath(bool tf32, bool deterministic);

}  // namespace composer
