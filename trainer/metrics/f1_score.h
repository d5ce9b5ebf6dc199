// F1 scores, 2 right / (predicted + actual), exact over samples and ranks. outputs: logits [B, C, *], classes in
// dimension 1; targets: indices [B, *], or dense [B, C, *].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/core/metric.h"

namespace composer {

// "BinaryF1Score": of class 1 of two; NaN when it is neither predicted nor true. Source: mosaicml
// composer/metrics/nlp.py.
std::unique_ptr<Metric> MakeBinaryF1Score(std::optional<int64_t> ignore_index = std::nullopt);

// kMacro: mean over the classes that occur, predicted or true. kWeighted: classes weigh as much as they are true.
// kMicro: of all classes together.
enum class F1Average { kMacro, kMicro, kWeighted };

// "MulticlassF1Score". Source: torchmetrics.classification.MulticlassF1Score.
std::unique_ptr<Metric> MakeMulticlassF1Score(int64_t num_classes, F1Average average = F1Average::kMacro,
                                              std::optional<int64_t> ignore_index = std::nullopt);

}  // namespace composer
