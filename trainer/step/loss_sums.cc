// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/loss_sums.h"

#include <torch/types.h>

#include <algorithm>

namespace composer {

void LossSums::Reset() {
  total_ = 0;
  std::fill(parts_.begin(), parts_.end(), 0);
  on_device_.reset();
}

void LossSums::Add(double weight, const at::Tensor& loss, const Parts& parts) {
  const torch::NoGradGuard no_grad;
  if (part_names_.empty()) {
    for (const auto& [name, scalar] : parts) part_names_.push_back(name);
    parts_.resize(parts.size());
  }
  TORCH_CHECK_VALUE(parts.empty() || parts.size() == part_names_.size(), "the model's loss has ", parts.size(),
                    " parts; in the first batch it had ", part_names_.size());
  if (loss.is_cpu()) {
    total_ += weight * loss.item<double>();
    for (size_t i = 0; i < parts.size(); ++i) parts_[i] += weight * parts[i].second.item<double>();
    return;
  }
  const auto length = static_cast<int64_t>(1 + parts_.size());
  if (!on_device_.defined() || on_device_.numel() != length) {
    ReadDevice();
    on_device_ = torch::zeros({length}, loss.options().dtype(torch::kDouble));
  }
  on_device_.select(0, 0).add_(loss.detach().squeeze(), weight);
  for (size_t i = 0; i < parts.size(); ++i)
    on_device_.select(0, 1 + static_cast<int64_t>(i)).add_(parts[i].second.detach().squeeze(), weight);
}

void LossSums::ReadDevice() {
  if (!on_device_.defined()) return;
  DeviceRead read;
  ReadWith(read);
  read.Read();
}

void LossSums::ReadWith(DeviceRead& read) {
  if (!on_device_.defined()) return;
  read.Add(std::exchange(on_device_, at::Tensor()), [this](absl::Span<const double> sums) {
    total_ += sums[0];
    for (size_t i = 1; i < sums.size(); ++i) parts_[i - 1] += sums[i];
  });
}

bool LossSums::on_device() const {
  return on_device_.defined() && total_ == 0 &&
         std::all_of(parts_.begin(), parts_.end(), [](double part) { return part == 0; });
}

void LossSums::MoveTo(const at::Tensor& place) { place.copy_(std::exchange(on_device_, at::Tensor())); }

double LossSums::total() {
  ReadDevice();
  return total_;
}

const std::vector<double>& LossSums::parts() {
  ReadDevice();
  return parts_;
}

}  // namespace composer
