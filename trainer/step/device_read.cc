// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/device_read.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace composer {
namespace {

at::Tensor Doubles(const at::Tensor& numbers) { return numbers.detach().reshape({-1}).to(at::kDouble); }

}  // namespace

void DeviceRead::Add(at::Tensor numbers, Take take) {
  if (!numbers.is_cpu()) {
    parts_.emplace_back(std::move(numbers), std::move(take));
    return;
  }
  const at::Tensor doubles = Doubles(numbers).contiguous();
  take(absl::MakeConstSpan(static_cast<const double*>(doubles.const_data_ptr()), static_cast<size_t>(doubles.numel())));
}

void DeviceRead::Read() {
  if (!parts_.empty()) Hand(Gather());
}

at::Tensor DeviceRead::Gather() {
  const at::NoGradGuard no_grad;
  gathered_.clear();
  std::vector<at::Tensor> all;
  for (auto& [numbers, take] : std::exchange(parts_, {})) {
    all.push_back(Doubles(numbers));
    gathered_.emplace_back(static_cast<size_t>(numbers.numel()), std::move(take));
  }
  return all.empty() ? at::Tensor() : at::cat(all);
}

void DeviceRead::Hand(const at::Tensor& gathered) const {
  if (!gathered.defined()) return;
  const at::Tensor host = gathered.cpu();
  const double* next = static_cast<const double*>(host.const_data_ptr());
  for (const auto& [count, take] : gathered_) {
    take(absl::MakeConstSpan(next, count));
    next += count;
  }
}

}  // namespace composer
