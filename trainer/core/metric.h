// A metric is a few sums and a function of them, so that adding the sums over batches and ranks is exact however the
// data is split. One that needs every sample (a curve, a rank) has lists as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "trainer/core/batch.h"
#include "trainer/core/outputs.h"

namespace composer {

class Metric {
 public:
  virtual ~Metric() = default;
  // Returns Composer's (torchmetrics') name: "MulticlassAccuracy", "CrossEntropy", "LanguageCrossEntropy".
  virtual std::string name() const = 0;
  // Adds one batch. `outputs` is the result of the model's eval_forward. Must not synchronise with a GPU.
  virtual void Update(const Outputs& outputs, const Batch& batch) = 0;
  // Returns the sums so far. With several ranks, the caller all-reduces them in place.
  virtual absl::Span<double> sums() = 0;
  // Returns the value computed from the sums; NaN when nothing was added.
  virtual double Compute() const = 0;
  // Returns the metric's lists so far, whose number does not change; a metric with lists is for evaluations only. With
  // several ranks, the caller appends the other ranks' elements, in the order of ranks.
  virtual absl::Span<std::vector<double>> lists() { return {}; }
  // Resets sums and lists. (SummedMetric's override does not wait for a GPU.)
  virtual void Reset() {
    for (double& sum : sums()) sum = 0;
    for (std::vector<double>& list : lists()) list.clear();
  }
};

using MetricList = std::vector<std::unique_ptr<Metric>>;

}  // namespace composer
