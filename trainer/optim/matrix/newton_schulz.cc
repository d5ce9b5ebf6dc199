// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/matrix/newton_schulz.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace composer {

void Orthogonalize(at::Tensor matrices, const at::Tensor& directions, const NewtonSchulz& options) {
  const auto [a, b, c] = options.coefficients;
  const bool tall = matrices.size(1) > matrices.size(2);
  const int64_t side = std::min(matrices.size(1), matrices.size(2));
  matrices.div_(at::linalg_vector_norm(matrices, 2, at::IntArrayRef({1, 2}), /*keepdim=*/true).clamp_min_(options.eps));
  at::Tensor gram = at::empty({matrices.size(0), side, side}, matrices.options()), polynomial = at::empty_like(gram);
  at::Tensor x = matrices, next = directions;
  for (int step = 0; step < options.steps; ++step) {
    const at::Tensor transposed = x.transpose(1, 2);
    at::bmm_out(gram, tall ? transposed : x, tall ? x : transposed);
    at::baddbmm_out(polynomial, gram, gram, gram, /*beta=*/b, /*alpha=*/c);
    at::baddbmm_out(next, x, tall ? x : polynomial, tall ? polynomial : x, /*beta=*/a);
    std::swap(x, next);
  }
  if (options.steps % 2 == 0) directions.copy_(x);
}

}  // namespace composer
