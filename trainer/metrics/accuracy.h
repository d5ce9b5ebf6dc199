// Shares of right predictions. outputs: logits [B, C] or [B, T, C], classes last, or images [B, C, *] with targets
// [B, *]; the prediction is the first largest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/metric.h"

namespace composer {

// "MulticlassAccuracy": right / all samples, torchmetrics' with average="micro". Targets int64 [B], or dense [B, C]
// (then the first largest counts).
std::unique_ptr<Metric> MakeMulticlassAccuracy();

// "MaskedAccuracy": the same over the targets that are not ignore_index. Composer's (metrics/nlp.py,
// metrics/metrics.py).
std::unique_ptr<Metric> MakeMaskedAccuracy(int64_t ignore_index = -100);

}  // namespace composer
