// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/metric_sums.h"

#include <torch/torch.h>

#include <limits>

namespace composer {
namespace {

void AddToHost(const at::Tensor& sums, absl::Span<double> host) {
  const at::Tensor values = sums.to(torch::kDouble).cpu().contiguous();
  TORCH_CHECK(values.numel() == static_cast<int64_t>(host.size()), "a metric of ", host.size(), " sums was given ",
              values.numel());
  const double* data = values.data_ptr<double>();
  for (size_t i = 0; i < host.size(); ++i) host[i] += data[i];
}

}  // namespace

void MetricSums::AddTensor(const at::Tensor& sums) {
  if (sums.is_cpu()) {
    AddToHost(sums, absl::MakeSpan(sums_));
  } else if (on_device_.defined()) {
    on_device_.add_(sums);
  } else {
    on_device_ = sums.to(torch::kDouble, /*non_blocking=*/false, /*copy=*/true);
  }
}

absl::Span<double> MetricSums::Get() {
  if (on_device_.defined()) {
    AddToHost(on_device_, absl::MakeSpan(sums_));
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
