// In which order backward will reach parameters, read off the graph before it runs.
//
// Autograd runs, of the operations whose gradients are all there, the one that the forward made last; a parameter's
// gradient is accumulated as soon as it is known. This goes through the graph the same way without computing, so the order
// is a function of the graph alone: the same in every process, and in one that resumes. torch's DDP watches the first
// backward instead and orders its buckets anew after it. Source: torch/csrc/autograd/engine.cpp, CompareNodeTaskTime.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace composer {

// Indices of the params that loss depends on, those whose gradients come first in front. On a GPU, whose autograd has a
// thread for each device, the order is what one device does. Costs about 0.2 us an operation. loss may need no gradient:
// then none.
std::vector<size_t> GradientOrder(const at::Tensor& loss, const std::vector<at::Tensor>& params);

}  // namespace composer
