// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss/binary_cross_entropy.h"

#include <torch/types.h>

#include "trainer/loss/one_hot.h"

namespace composer {

at::Tensor BinaryCrossEntropyWithLogits(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor dense = OneHotTargets("binary_cross_entropy_with_logits", logits, targets);
  return at::binary_cross_entropy_with_logits(logits, dense, {}, {}, at::Reduction::Sum) /
         static_cast<double>(logits.size(0));
}

}  // namespace composer
