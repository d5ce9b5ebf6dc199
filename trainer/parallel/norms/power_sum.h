// AddPowers sums |x|^p over tensors in host memory. The result is the same to the last bit wherever the elements are
// cut into pieces at multiples of kFlatAlignment (flat_layout.h): each run of that many elements is summed by itself in
// double, and the runs without rounding (exact_sum.h). It is for norms over sharded tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/parallel/norms/exact_sum.h"

namespace composer {

// Adds the powers of a whole tensor, or of a piece that begins at such a multiple. Requires floating point on the CPU,
// and p >= 1 and finite.
void AddPowers(const at::Tensor& tensor, double p, ExactSum& sum);

// Returns the sum of the squares of one run; n <= kFlatAlignment.
double SquaresOfRun(const float* x, int64_t n);

}  // namespace composer
