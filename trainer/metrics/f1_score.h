// F1 scores, 2 right / (predicted + actual), exact over samples and ranks. outputs are logits [B, C, *], with the
// classes in dimension 1; targets are indices [B, *], or dense [B, C, *].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/core/metric.h"

namespace composer {

// "BinaryF1Score": the score of class 1 of two. It is NaN when that class is neither predicted nor true.
// Source: mosaicml composer/metrics/nlp.py.
std::unique_ptr<Metric> MakeBinaryF1Score(std::optional<int64_t> ignore_index = std::nullopt);

// kMacro is the mean over the classes that occur, predicted or true. kWeighted weights each class by its number of true
// targets. kMicro counts all classes together.
enum class F1Average { kMacro, kMicro, kWeighted };

// "MulticlassF1Score". Source: torchmetrics.classification.MulticlassF1Score.
std::unique_ptr<Metric> MakeMulticlassF1Score(int64_t num_classes, F1Average average = F1Average::kMacro,
                                              std::optional<int64_t> ignore_index = std::nullopt);

}  // namespace composer
