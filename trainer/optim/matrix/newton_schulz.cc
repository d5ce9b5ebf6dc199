// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/matrix/newton_schulz.h"

#include <torch/types.h>

namespace composer {

at::Tensor Orthogonalize(at::Tensor matrices, const NewtonSchulz& options) {
  const auto [a, b, c] = options.coefficients;
  const bool tall = matrices.size(1) > matrices.size(2);
  at::Tensor x = tall ? matrices.transpose(1, 2) : matrices;
  x.div_(at::linalg_vector_norm(x, 2, at::IntArrayRef({1, 2}), /*keepdim=*/true).clamp_min_(options.eps));
  for (int step = 0; step < options.steps; ++step) {
    const at::Tensor gram = at::bmm(x, x.transpose(1, 2));
    const at::Tensor polynomial = at::baddbmm(gram, gram, gram, /*beta=*/b, /*alpha=*/c);
    x = at::baddbmm(x, polynomial, x, /*beta=*/a);
  }
  return tall ? x.transpose(1, 2) : x;
}

}  // namespace composer
