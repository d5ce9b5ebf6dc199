// A metric is a few sums and a function of them, so that adding the sums over batches and ranks is exact whatever the
// split.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "trainer/core/batch.h"

namespace composer {

class Metric {
 public:
  virtual ~Metric() = default;
  // Composer's (torchmetrics') name: "MulticlassAccuracy", "CrossEntropy", "LanguageCrossEntropy".
  virtual std::string name() const = 0;
  // Adds one batch. outputs: what the model's eval_forward gave. Must not synchronise a GPU.
  virtual void Update(const at::Tensor& outputs, const Batch& batch) = 0;
  // The sums so far; all-reduced in place by the caller when there are several ranks.
  virtual absl::Span<double> sums() = 0;
  // The value of the sums; NaN when nothing was added.
  virtual double Compute() const = 0;
  // Forgets everything. (SummedMetric's does not wait for a GPU.)
  virtual void Reset() {
    for (double& sum : sums()) sum = 0;
  }
};

using MetricList = std::vector<std::unique_ptr<Metric>>;

}  // namespace composer
