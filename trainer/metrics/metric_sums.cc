// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/metric_sums.h"

#include <torch/types.h>

#include <limits>
#include <utility>

namespace composer {
void MetricSums::AddTensor(const at::Tensor& sums) {
  if (sums.is_cpu()) {
    DeviceRead now;
    ReadWith(sums, now);
  } else if (on_device_.defined()) {
    on_device_.add_(sums);
  } else {
    on_device_ = sums.to(torch::kDouble, /*non_blocking=*/false, /*copy=*/true);
  }
}

void MetricSums::ReadWith(const at::Tensor& sums, DeviceRead& read) {
  TORCH_CHECK(sums.numel() == static_cast<int64_t>(sums_.size()), "a metric of ", sums_.size(), " sums was given ",
              sums.numel());
  read.Add(sums, [this](absl::Span<const double> values) {
    for (size_t i = 0; i < values.size(); ++i) sums_[i] += values[i];
  });
}

void MetricSums::ReadWith(DeviceRead& read) {
  if (on_device_.defined()) ReadWith(std::exchange(on_device_, at::Tensor()), read);
}

void MetricSums::MoveTo(const at::Tensor& place) {
  if (on_device_.defined()) place.copy_(std::exchange(on_device_, at::Tensor()));
}

absl::Span<double> MetricSums::Get() {
  DeviceRead read;
  ReadWith(read);
  read.Read();
  return absl::MakeSpan(sums_);
}

double MetricSums::Ratio() const {
  MetricSums all = *this;
  const absl::Span<double> sums = all.Get();
  return sums[1] == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[0] / sums[1];
}

}  // namespace composer
