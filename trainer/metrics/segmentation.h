// Overlap of predicted and true areas, exact over samples and ranks. outputs are logits [B, C, *], with the classes in
// dimension 1; targets are indices [B, *], or dense [B, C, *].
// Source: mosaicml composer/metrics/metrics.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/core/metric.h"

namespace composer {

// "MIoU", x 100: the mean over the classes that occur, predicted or true, of right / (predicted + actual - right).
std::unique_ptr<Metric> MakeMIoU(int64_t num_classes, std::optional<int64_t> ignore_index = -1);

// "Dice", x 100: the mean over the classes except the first, the background, of 2 right / (predicted + actual), which
// is 1 for a class that is neither predicted nor true. num_classes includes the background (Composer's does not). The
// value is exact over all batches; batch_mean gives Composer's, the mean of the batches' values (which Composer also
// rounds to two decimals).
std::unique_ptr<Metric> MakeDice(int64_t num_classes, bool batch_mean = false);

}  // namespace composer
