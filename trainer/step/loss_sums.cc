// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/loss_sums.h"

#include <torch/torch.h>

#include <algorithm>

namespace composer {

void LossSums::Reset() {
  sums_.fill(0);
  on_device_.reset();
}

void LossSums::Add(double weight, const at::Tensor& loss, const Parts& parts) {
  const torch::NoGradGuard no_grad;
  const size_t num_parts = std::min<size_t>(parts.size(), StepMessage::kMaxLossParts);
  if (part_names_.empty()) {
    for (size_t i = 0; i < num_parts; ++i) part_names_.push_back(parts[i].first);
  }
  if (loss.is_cpu()) {
    sums_[0] += weight * loss.item<double>();
    for (size_t i = 0; i < num_parts; ++i) sums_[1 + i] += weight * parts[i].second.item<double>();
    return;
  }
  if (!on_device_.defined())
    on_device_ = torch::zeros({1 + StepMessage::kMaxLossParts}, loss.options().dtype(torch::kDouble));
  on_device_.select(0, 0).add_(loss.detach().squeeze(), weight);
  for (size_t i = 0; i < num_parts; ++i)
    on_device_.select(0, 1 + static_cast<int64_t>(i)).add_(parts[i].second.detach().squeeze(), weight);
}

void LossSums::ReadDevice() {
  if (!on_device_.defined()) return;
  const at::Tensor host = on_device_.cpu();
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += host.data_ptr<double>()[i];
  on_device_.reset();
}

double LossSums::total() {
  ReadDevice();
  return sums_[0];
}

const std::array<double, StepMessage::kMaxLossParts>& LossSums::parts() {
  ReadDevice();
  std::copy(sums_.begin() + 1, sums_.end(), parts_.begin());
  return parts_;
}

}  // namespace composer
