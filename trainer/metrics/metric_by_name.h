// Creates metrics by the names under which they are logged, for configurations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/core/metric.h"
#include "trainer/metrics/f1_score.h"
#include "trainer/metrics/loss_metric.h"

namespace composer {

// What a metric may need. Each metric reads what its Make function takes.
struct MetricOptions {
  int64_t num_classes = 0;              // MIoU, Dice, MulticlassF1Score, MulticlassConfusionMatrix: required
  std::optional<int64_t> ignore_index;  // default: the metric's own
  F1Average average = F1Average::kMacro;
  bool batch_mean = false;  // composer_compat: CrossEntropy, Dice, LossMetric
  LossFunction loss;        // LossMetric: required
  int64_t top_k = 1;        // MulticlassAccuracy
  double data_range = 0;    // SSIM: required
};

// MetricNames() lists the names ("MulticlassAccuracy", "CrossEntropy", …). Returns kInvalidArgument for an unknown
// name, with the nearest one, and for a required option that is missing, by its field's name.
absl::StatusOr<std::unique_ptr<Metric>> MetricByName(absl::string_view name, const MetricOptions& options = {});

std::vector<std::string> MetricNames();

}  // namespace composer
