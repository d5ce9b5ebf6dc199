// The losses of a classifier by name, for Composer's `loss_name` and ComposerClassifier's `loss_fn`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Of outputs [B, C, *] and targets: int64 [B, *], or dense, of the outputs' shape.
struct ClassifierLoss {
  using Function = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;
  // Returns a scalar.
  Function mean;
  // Returns [B], whose mean is `mean` (up to rounding, and up to targets that do not count); empty: it has none.
  Function by_sample;
};

struct ClassifierLossOptions {
  // A factor for each class, at least 0; empty: all 1. Of soft_cross_entropy, cross_entropy and nll_loss, whose mean of
  // class indices is then over the sum of the targets' factors, as torch's; and of binary_cross_entropy_with_logits.
  std::vector<double> class_weights;
  // From 0 to 1: this part of each target is spread over all classes. Of soft_cross_entropy and cross_entropy.
  double label_smoothing = 0;
  // The sum over samples and places in place of the mean, so that gradients grow with the size of a microbatch. Not of
  // binary_cross_entropy_with_logits and dice_loss.
  bool sum = false;

  bool is_default() const { return class_weights.empty() && label_smoothing == 0 && !sum; }
};

//   soft_cross_entropy                Composer's (cross_entropy.h), the default
//   cross_entropy                     torch's; of dense targets the mean over samples and places
//   binary_cross_entropy_with_logits  Composer's (binary_cross_entropy.h): the sum over the batch size
//   nll_loss                          torch's, of outputs that are logarithms of probabilities
//   mse_loss, l1_loss                 torch's means over all outputs; class indices become zeros and ones
//   dice_loss                         DiceLoss of the softmax (dice_loss.h)
// kInvalidArgument, with the nearest name, for any other, and for options that the loss does not have. With options
// there is no by_sample.
absl::StatusOr<ClassifierLoss> ClassifierLossByName(absl::string_view name, const ClassifierLossOptions& options = {});
std::vector<std::string> ClassifierLossNames();

}  // namespace composer
