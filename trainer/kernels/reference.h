// The operators of operators.h by LibTorch's own: the formulas, of which worker/cuda/kernels must not differ by more
// than the rounding of their types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace composer::kernels {

void RegisterReference(torch::Library& library);

}  // namespace composer::kernels
