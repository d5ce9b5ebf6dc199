// Metrics by the names they are logged under, for configurations.
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

// What a metric may need; each reads what its Make function takes.
struct MetricOptions {
  int64_t num_classes = 0;              // MIoU, Dice, MulticlassF1Score: required
  std::optional<int64_t> ignore_index;  // default: the metric's own
  F1Average average = F1Average::kMacro;
  bool batch_mean = false;  // composer_compat: CrossEntropy, Dice, LossMetric
  LossFunction loss;        // LossMetric: required
};

// "MulticlassAccuracy", "CrossEntropy", …: MetricNames(). kInvalidArgument: an unknown name, with the nearest; a
// required option that is missing, by its field's name.
absl::StatusOr<std::unique_ptr<Metric>> MetricByName(absl::string_view name, const MetricOptions& options = {});

std::vector<std::string> MetricNames();

}  // namespace composer
