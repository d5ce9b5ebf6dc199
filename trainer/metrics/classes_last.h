// Finds the class dimension of a model's outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

// Returns outputs [B, C, *] with targets [B, *] (images, as Composer and torchmetrics have them) as a view [B, *, C].
// Everything else, [B, C] and [B, T, C] with targets [B, T], is returned unchanged. Where both interpretations fit, the
// classes are last.
inline at::Tensor ClassesLast(const at::Tensor& outputs, const at::Tensor& targets) {
  if (outputs.dim() < 3 || targets.dim() != outputs.dim() - 1) return outputs;
  if (targets.sizes() == outputs.sizes().slice(0, outputs.dim() - 1)) return outputs;
  const bool second = targets.size(0) == outputs.size(0) && targets.sizes().slice(1) == outputs.sizes().slice(2);
  return second ? outputs.movedim(1, -1) : outputs;
}

}  // namespace composer
