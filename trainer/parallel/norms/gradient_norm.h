// These functions compute the norm of all gradients together, and clip by it or by value. The numbers are the same
// whether the model is sharded or not, in host memory to the last bit (power_sum.h); on a GPU a norm is summed over
// pieces first, then over shards. They are for algorithms at AFTER_TRAIN_BATCH. Source: torch/nn/utils/clip_grad.py
// (2.11).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/core/model_sharding.h"

namespace composer {

// Returns (sum |g|^p)^(1/p) over the gradients of params, p >= 1, or the largest |g| with p = infinity; 0 when there
// are none. `sharding` is null or the model's; with it the call is a collective and waits. NaN and infinity are passed
// through. Frozen parameters have no gradient; a parameter with two names must be given once.
double GradientNorm(const std::vector<at::Tensor>& params, ModelSharding* sharding, double p = 2);

// Multiplies the gradients by max_norm / (norm + 1e-6) when that is below 1. Returns the norm before clipping.
double ClipGradientsByNorm(const std::vector<at::Tensor>& params, double max_norm, ModelSharding* sharding,
                           double p = 2);

// The same on a GPU, without a wait of the host, for p = 2. Returns false and does nothing if parameters or `sharding`
// are in host memory.
bool ClipGradientsOnDevice(const std::vector<at::Tensor>& params, double max_norm, ModelSharding* sharding);

// Clamps each element to [-limit, limit]; not a collective.
void ClipGradientsByValue(const std::vector<at::Tensor>& params, double limit);

}  // namespace composer
