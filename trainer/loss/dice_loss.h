// Dice loss: 1 - twice the overlap of prediction and target over the sum of their areas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

// Composer's arguments and defaults.
struct DiceLossOptions {
  bool sigmoid = false;  // of the inputs first; not with softmax
  bool softmax = false;  // over the classes first
  bool squared_pred = false;
  bool jaccard = false;                // overlap over union instead
  bool batch = false;                  // areas over the whole batch instead of each sample
  bool ignore_absent_classes = false;  // classes without a target in the batch do not count
  bool sum = false;                    // reduction: sum instead of mean, over samples and classes
};

// With p the inputs and t the targets, sums over places (and samples, with batch), e = 1e-5:
//   overlap = sum p t;   area = sum t + sum p, with squared_pred of the squares; p only where there is a target
//   jaccard: area <- 2 (area - overlap)
//   loss = mean over samples and classes of 1 - (2 overlap + e) / (area + e)
// inputs [B, C, *]; targets int64 [B, *] (negative: no target there), or of inputs' shape.
// Source: mosaicml composer/loss/loss.py, DiceLoss (after MONAI). Throws c10::ValueError when sigmoid and softmax are
// both set or the shapes do not fit. Does not synchronise a GPU.
at::Tensor DiceLoss(const at::Tensor& inputs, const at::Tensor& targets, const DiceLossOptions& options);

}  // namespace composer
