// The sums of a metric: doubles on the host, plus those of GPU batches, which stay on the GPU until they are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "trainer/core/metric.h"
#include "trainer/step/device_read.h"

namespace composer {

// Most metrics have two sums, a total and the number by which it is divided; these two are stored inline.
class MetricSums {
 public:
  explicit MetricSums(size_t count = 2) : sums_(count) {}

  // Requires two sums.
  void Add(double total, double count) {
    sums_[0] += total;
    sums_[1] += count;
  }
  // sums is [count] on any device. A GPU is not synchronised.
  void AddTensor(const at::Tensor& sums);
  // Forgets everything. Does not wait.
  void Reset() {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    on_device_.reset();
  }
  // Has what was added on a GPU read with other numbers. These sums must not move or be read before.
  void ReadWith(DeviceRead& read);
  // Returns whether nothing but zeros is on the host.
  bool on_device() const {
    return std::all_of(sums_.begin(), sums_.end(), [](double sum) { return sum == 0; });
  }
  size_t size() const { return sums_.size(); }
  // Moves what is on a GPU into `place`, [count] double zeros there, without waiting.
  void MoveTo(const at::Tensor& place);
  // Waits for the GPU when something was added there and not read yet.
  absl::Span<double> Get();
  // Returns the first sum divided by the second, NaN when nothing was added. Waits like Get.
  double Ratio() const;

 private:
  void ReadWith(const at::Tensor& sums, DeviceRead& read);

  absl::InlinedVector<double, 2> sums_;
  at::Tensor on_device_;  // [count] double, not yet in sums_
};

// A metric with a name and sums. Derived classes implement Update, and Compute where it is not the ratio of the sums.
class SummedMetric : public Metric {
 public:
  explicit SummedMetric(std::string name, size_t count = 2) : sums_(count), name_(std::move(name)) {}
  std::string name() const final { return name_; }
  absl::Span<double> sums() final { return sums_.Get(); }
  void ReadWith(DeviceRead& read) { sums_.ReadWith(read); }
  bool on_device() const { return sums_.on_device(); }
  size_t num_sums() const { return sums_.size(); }
  void MoveTo(const at::Tensor& place) { sums_.MoveTo(place); }
  void Reset() final { sums_.Reset(); }
  double Compute() const override { return sums_.Ratio(); }

 protected:
  MetricSums sums_;

 private:
  std::string name_;
};

}  // namespace composer
