// The sums of a metric: doubles on the host, plus those of GPU batches, which stay on the GPU until someone asks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "absl/types/span.h"

namespace composer {

// A total and the number it is divided by.
class MetricSums {
 public:
  void Add(double total, double count) {
    sums_[0] += total;
    sums_[1] += count;
  }
  // sums: [2] on any device; no synchronisation when it is a GPU.
  void AddTensor(const at::Tensor& sums);
  // Waits for the GPU when something was added there.
  absl::Span<double> Get();
  // total / count; NaN when nothing was added. Waits like Get.
  double Ratio() const;

 private:
  std::array<double, 2> sums_{};
  at::Tensor on_device_;  // [2] double, not yet in sums_
};

}  // namespace composer
