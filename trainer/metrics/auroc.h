// The area under the receiver operating characteristic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/core/metric.h"

namespace composer {

// "BinaryAUROC": the probability that a sample of class 1 has a higher score than one of class 0, where equal scores
// count one half; 0 when a class does not occur. outputs are the logit of class 1, [B] or [B, 1], or the logits of
// both, [B, 2]; targets are 0 or 1, [B]. Exact over samples and ranks; keeps 16 bytes a sample. For evaluations only.
// Source: torchmetrics.classification.BinaryAUROC (thresholds=None).
std::unique_ptr<Metric> MakeBinaryAUROC(std::optional<int64_t> ignore_index = std::nullopt);

}  // namespace composer
