// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/matrix/neuron_scale.h"

#include <torch/types.h>

namespace composer {

at::Tensor NeuronFactors(const at::Tensor& direction, at::Tensor second_moment, double beta2) {
  constexpr double kEps = 1e-10;
  const torch::NoGradGuard no_grad;
  const at::Tensor squares = direction.to(at::kFloat).contiguous().square().sum(1), total = squares.sum();
  const at::Tensor moved = second_moment.lerp(squares / direction.size(1), 1 - beta2);
  second_moment.copy_(at::where(total > 0, moved, second_moment));
  const at::Tensor scales = second_moment.sqrt().add_(kEps).reciprocal_();
  return scales * (total.sqrt() / (squares * scales.square()).sum().sqrt().add_(kEps));
}

}  // namespace composer
