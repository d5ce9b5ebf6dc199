// Correlations of predictions with targets, as GLUE's tasks are measured: Matthews' for CoLA, Pearson's and Spearman's
// for STS-B.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trainer/core/metric.h"

namespace composer {

// "BinaryMatthewsCorrCoef", "MulticlassMatthewsCorrCoef". With C classes, s samples, c of them right, class k predicted
// p_k times and true t_k times: (c s - sum p_k t_k) / sqrt((s² - sum p_k²) (s² - sum t_k²)); 1 when all are right, 0
// when the denominator is 0 (as scikit-learn). Outputs and targets are as for CountClasses.
std::unique_ptr<Metric> MakeBinaryMatthewsCorrCoef(std::optional<int64_t> ignore_index = std::nullopt);
std::unique_ptr<Metric> MakeMulticlassMatthewsCorrCoef(int64_t num_classes,
                                                       std::optional<int64_t> ignore_index = std::nullopt);

// "PearsonCorrCoef" and "SpearmanCorrCoef" (Pearson's of the ranks, where equal values share the mean of theirs) of
// outputs and targets, [B] or [B, 1] each; the second is for evaluations. NaN when one of the two does not vary.
std::unique_ptr<Metric> MakePearsonCorrCoef();
std::unique_ptr<Metric> MakeSpearmanCorrCoef();

}  // namespace composer
