// Adaptive gradient clipping bounds each row of a gradient by the norm of the parameter's row. Source: Brock et al.
// 2021, arXiv:2102.06171; mosaicml composer/algorithms/gradient_clipping/gradient_clipping.py, _apply_agc().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/core/model_sharding.h"

namespace composer {

// Multiplies each row of each gradient by min(1, threshold max(|w|, 1e-3) / max(|g|, 1e-3)), with 2-norms of the row of
// the parameter and of its gradient; NaN counts as 1. Rows are those of the whole parameter's first dimension; a
// parameter with fewer than two dimensions is one row. `sharding` is null or the model's; with it the call is a
// collective. In host memory the numbers have the same bits however parameters are sharded; with tensor parallelism
// they are equal up to the rounding of sums. A parameter with two names must be given once; those without a gradient,
// which must be the same on all ranks, are left alone.
void ClipGradientsAdaptively(const std::vector<at::Tensor>& params, double threshold, ModelSharding* sharding);

}  // namespace composer
