// The losses of a classifier by name, for Composer's `loss_name` and ComposerClassifier's `loss_fn`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Of outputs [B, C, *] and targets: int64 [B, *], or dense, of the outputs' shape.
struct ClassifierLoss {
  // Returns a scalar.
  at::Tensor (*mean)(const at::Tensor& outputs, const at::Tensor& targets);
  // Returns [B], whose mean is `mean` (up to rounding, and up to targets that do not count); null: it has none.
  at::Tensor (*by_sample)(const at::Tensor& outputs, const at::Tensor& targets);
};

//   soft_cross_entropy                Composer's (cross_entropy.h), the default
//   cross_entropy                     torch's; of dense targets the mean over samples and places
//   binary_cross_entropy_with_logits  Composer's (binary_cross_entropy.h): the sum over the batch size
//   nll_loss                          torch's, of outputs that are logarithms of probabilities
//   mse_loss, l1_loss                 torch's means over all outputs; class indices become zeros and ones
//   dice_loss                         DiceLoss of the softmax (dice_loss.h)
// kInvalidArgument, with the nearest name, for any other.
absl::StatusOr<ClassifierLoss> ClassifierLossByName(absl::string_view name);
std::vector<std::string> ClassifierLossNames();

}  // namespace composer
