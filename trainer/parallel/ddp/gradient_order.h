// GradientOrder finds the order in which backward will reach parameters, from the graph before it runs.
//
// Among the operations whose gradients are all available, autograd runs the one that the forward made last; a
// parameter's gradient is accumulated as soon as it is known. GradientOrder walks the graph in the same way without
// computing, so the order is a function of the graph alone: the same in every process, and in one that resumes. torch's
// DDP instead watches the first backward and reorders its buckets after it. Source: torch/csrc/autograd/engine.cpp,
// CompareNodeTaskTime.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace composer {

// Returns the indices of the params that loss depends on, in the order of their gradients. On a GPU, for which autograd
// has a thread per device, it is the order of one device. Costs about 0.2 us per operation. If loss needs no gradient,
// the result is empty.
std::vector<size_t> GradientOrder(const at::Tensor& loss, const std::vector<at::Tensor>& params);

}  // namespace composer
