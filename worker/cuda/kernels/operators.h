// The operators composer::… (trainer/kernels/operators.h) by our own kernels: what is between LibTorch's tensors and
// launches.h. Tensors that a kernel cannot take as they lie are copied first. Types that none has are refused with
// c10::NotImplementedError, which names them; trainer/kernels/choice.h keeps models from asking.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

#include "worker/cuda/kernels/launches.h"

namespace composer::device {

// Adds all operators to the library, an implementation of "composer" for one dispatch key. stream: returns the stream
// of the current device on which kernels are to run.
void RegisterOperators(torch::Library& library, Stream (*stream)());

}  // namespace composer::device
