// Dice loss: 1 minus twice the overlap of prediction and target over the sum of their areas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

// Composer's arguments and defaults.
struct DiceLossOptions {
  bool sigmoid = false;  // applied to the inputs first; excludes softmax
  bool softmax = false;  // applied over the classes first
  bool squared_pred = false;
  bool jaccard = false;                // divides the overlap by the union instead
  bool batch = false;                  // computes areas over the whole batch instead of per sample
  bool ignore_absent_classes = false;  // leaves out classes that have no target in the batch
  bool sum = false;                    // reduces by sum instead of mean, over samples and classes
};

// With p the inputs, t the targets, sums over places (and samples, with batch), and e = 1e-5:
//   overlap = sum p t;   area = sum t + sum p; squared_pred squares both first; p only where there is a target
//   jaccard: area <- 2 (area - overlap)
//   loss = mean over samples and classes of 1 - (2 overlap + e) / (area + e)
// inputs are [B, C, *]; targets are int64 [B, *] (a negative one means no target there) or have inputs' shape.
// Source: mosaicml composer/loss/loss.py, DiceLoss (after MONAI). Throws c10::ValueError when sigmoid and softmax are
// both set or the shapes do not fit. Does not synchronise a GPU.
at::Tensor DiceLoss(const at::Tensor& inputs, const at::Tensor& targets, const DiceLossOptions& options);

}  // namespace composer
