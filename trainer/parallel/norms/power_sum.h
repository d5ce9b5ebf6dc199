// sum of |x|^p over tensors in host memory, to the last bit the same wherever their elements are cut into pieces at
// multiples of kFlatAlignment (flat_layout.h): each run of that many elements is summed by itself in double, the runs
// without rounding (exact_sum.h). For norms over sharded tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/parallel/norms/exact_sum.h"

namespace composer {

// Adds those of a tensor: a whole one or a piece that begins at such a multiple. Floating point, on the CPU; p >= 1,
// finite.
void AddPowers(const at::Tensor& tensor, double p, ExactSum& sum);

}  // namespace composer
