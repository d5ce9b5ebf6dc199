// How often each class was taken for each other one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/metrics/metric_sums.h"

namespace composer {

// A metric that is more than one number. After an evaluation its table goes to the loggers, as <name>/<label of the
// evaluation>.
class TableMetric : public SummedMetric {
 public:
  using SummedMetric::SummedMetric;
  struct Table {
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;
  };
  // Of the sums so far.
  virtual Table ToTable() const = 0;
};

// "MulticlassConfusionMatrix": a row for each class of the targets, a column for each class that was predicted (the
// first of the largest logits), and how often they met; its number is the share of the diagonal. outputs are [B, C, *]
// logits, targets [B, *] indices or dense [B, C, *]. Targets of ignore_index, or outside of [0, C), do not count.
// The counts are torchmetrics' MulticlassConfusionMatrix's.
std::unique_ptr<TableMetric> MakeMulticlassConfusionMatrix(int64_t num_classes,
                                                           std::optional<int64_t> ignore_index = std::nullopt);

}  // namespace composer
