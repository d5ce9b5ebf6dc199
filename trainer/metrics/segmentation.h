// Overlap of predicted and true areas, exact over samples and ranks. outputs: logits [B, C, *], classes in dimension 1;
// targets: indices [B, *], or dense [B, C, *].
// Source: mosaicml composer/metrics/metrics.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/core/metric.h"

namespace composer {

// "MIoU", x 100: mean over the classes that occur, predicted or true, of right / (predicted + actual - right).
std::unique_ptr<Metric> MakeMIoU(int64_t num_classes, std::optional<int64_t> ignore_index = -1);

// "Dice", x 100: mean over the classes but the first, the background, of 2 right / (predicted + actual); 1 for a class
// that is neither predicted nor true. num_classes counts the background (Composer's leaves it out). Exact over all
// batches; batch_mean: Composer's, the mean of the batches' values (which it also rounds to two decimals).
std::unique_ptr<Metric> MakeDice(int64_t num_classes, bool batch_mean = false);

}  // namespace composer
