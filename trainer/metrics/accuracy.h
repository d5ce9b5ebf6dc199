// Fractions of correct predictions. outputs are logits [B, C] or [B, T, C], with the classes last, or images [B, C, *]
// with targets [B, *]. The prediction is the first of the largest logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/metric.h"

namespace composer {

// "MulticlassAccuracy": right / all samples, same as torchmetrics' with average="micro". Targets are int64 [B], or
// dense [B, C], of which the first largest counts.
std::unique_ptr<Metric> MakeMulticlassAccuracy();
// "MulticlassAccuracyTop<k>": right is a target that fewer than k logits precede: larger, or equal ones before it.
std::unique_ptr<Metric> MakeTopAccuracy(int64_t k);

// "MaskedAccuracy": the same over the targets that are not ignore_index. Source: mosaicml composer/metrics/nlp.py and
// metrics.py.
std::unique_ptr<Metric> MakeMaskedAccuracy(int64_t ignore_index = -100);

}  // namespace composer
