// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/metric_sums.h"

#include <torch/torch.h>

#include <limits>

namespace composer {
namespace {

std::array<double, 2> ToHost(const at::Tensor& sums) {
  const at::Tensor host = sums.to(torch::kDouble).cpu();
  const double* data = host.data_ptr<double>();
  return {data[0], data[1]};
}

}  // namespace

void MetricSums::AddTensor(const at::Tensor& sums) {
  if (sums.is_cpu()) {
    const auto [total, count] = ToHost(sums);
    Add(total, count);
  } else if (on_device_.defined()) {
    on_device_.add_(sums);
  } else {
    on_device_ = sums.to(torch::kDouble, /*non_blocking=*/false, /*copy=*/true);
  }
}

absl::Span<double> MetricSums::Get() {
  if (on_device_.defined()) {
    const auto [total, count] = ToHost(on_device_);
    Add(total, count);
    on_device_.reset();
  }
  return absl::MakeSpan(sums_);
}

double MetricSums::Ratio() const {
  MetricSums all = *this;
  const absl::Span<double> sums = all.Get();
  return sums[1] == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[0] / sums[1];
}

}  // namespace composer
