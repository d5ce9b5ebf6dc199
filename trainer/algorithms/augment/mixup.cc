// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/mixup.h"

#include <torch/types.h>

#include <algorithm>

#include "trainer/algorithms/augment/draws.h"

namespace composer {
at::Tensor MixUpBatch(const at::Tensor& x, double mixing, const at::Tensor& permutation) {
  return (1 - mixing) * x + mixing * x.index_select(0, permutation.to(x.device()));
}

double DrawMixing(double alpha) {
  if (alpha == 0) return 0;
  const double drawn = DrawBeta(alpha);
  return std::min(drawn, 1 - drawn);
}

PairMixing::Mixed MixUp::MixInputs(Batch& batch) {
  TORCH_CHECK_VALUE(batch.inputs.defined() && batch.inputs.is_floating_point() && batch.targets.defined(),
                    "mixup: it mixes inputs that are floating point, with targets; these are ",
                    batch.inputs.defined() ? toString(batch.inputs.scalar_type()) : "missing",
                    "; the transform to_float makes images of bytes so");
  const double mixing = DrawMixing(options_.alpha);
  const at::Tensor permutation = torch::randperm(batch.inputs.size(0), torch::dtype(at::kLong));
  batch.inputs = MixUpBatch(batch.inputs, mixing, permutation);
  return {1 - mixing, mixing, batch.targets.index_select(0, permutation.to(batch.targets.device()))};
}

}  // namespace composer
