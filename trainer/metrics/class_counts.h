// Counts for every class how often it was predicted, how often it was the target, and how often both at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "trainer/metrics/metric_sums.h"

namespace composer {

// The counts of one class. False positives are predicted - right; false negatives are actual - right.
struct ClassCount {
  double right = 0;
  double predicted = 0;
  double actual = 0;
};

// Returns [3, C] int64 on the outputs' device: right, predicted, actual. outputs are logits [B, C, *], with the classes
// in dimension 1 as in Composer's segmentation metrics. targets are indices [B, *], or dense [B, C, *] whose largest
// counts. Places whose target is ignore_index do not count; a target outside [0, C) is never right, but its prediction
// counts. Does not synchronise a GPU. Throws c10::ValueError that names the metric when the shapes do not fit.
at::Tensor CountClasses(const std::string& metric, const at::Tensor& outputs, const at::Tensor& targets,
                        std::optional<int64_t> ignore_index);

// A metric that is a function of the counts.
class CountedMetric : public SummedMetric {
 public:
  CountedMetric(std::string name, int64_t num_classes, std::optional<int64_t> ignore_index)
      : SummedMetric(std::move(name), 3 * static_cast<size_t>(num_classes)),
        num_classes_(num_classes),
        ignore_index_(ignore_index) {}
  void Update(const Outputs& outputs, const Batch& batch) final;
  double Compute() const final;

 protected:
  // counts has one element per class.
  virtual double FromCounts(absl::Span<const ClassCount> counts) const = 0;
  // Returns the value when nothing was counted.
  virtual double OfNothing() const { return std::numeric_limits<double>::quiet_NaN(); }

 private:
  int64_t num_classes_;
  std::optional<int64_t> ignore_index_;
};

}  // namespace composer
