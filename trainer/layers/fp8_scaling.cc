// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/fp8_scaling.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "trainer/layers/fp8_product.h"

namespace composer {

size_t Fp8Scaling::AddLayer(std::string name) {
  layers_.push_back(std::move(name));
  return layers_.size() - 1;
}

void Fp8Scaling::Start(at::Device device) {
  const int64_t count = kFp8Operands * static_cast<int64_t>(layers_.size());
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  recorded_ = at::zeros({count}, options);
  used_ = at::zeros({count}, options);
  history_ = at::zeros({count, recipe_.amax_history_len}, options);
  recorded_of_.clear();
  used_of_.clear();
  for (int64_t i = 0; i < count; ++i) {
    recorded_of_.push_back(recorded_.narrow(0, i, 1));
    used_of_.push_back(used_.narrow(0, i, 1));
  }
}

at::Tensor Fp8Scaling::AmaxOf(size_t layer, Fp8Operand operand, const at::Tensor& x) {
  const at::Tensor own = Amax(x);
  if (!is_delayed() || !history_.defined()) return own;
  const size_t place = layer * kFp8Operands + static_cast<size_t>(operand);
  at::maximum_out(recorded_of_[place], recorded_of_[place], own);
  // 0 x NaN and 0 x infinity are NaN.
  return at::where(used_of_[place] > 0, at::add(used_of_[place], own, /*alpha=*/0), own);
}

void Fp8Scaling::Advance(const at::Tensor& amaxes_of_all_ranks) {
  const at::Tensor before = history_.select(1, 0);
  const at::Tensor newest =
      at::where(amaxes_of_all_ranks.isfinite() & (amaxes_of_all_ranks > 0), amaxes_of_all_ranks, before);
  history_.copy_(at::cat({newest.unsqueeze(1), history_.narrow(1, 0, recipe_.amax_history_len - 1)}, 1));
  recorded_.zero_();
  UseHistory();
}

void Fp8Scaling::UseHistory() {
  const bool most_recent = recipe_.amax_compute_algo == Fp8AmaxAlgo::kMostRecent;
  used_.copy_(most_recent ? history_.select(1, 0) : history_.amax(1));
}

void Fp8Scaling::SetHistory(const std::vector<std::string>& layers, const at::Tensor& history) {
  history_.zero_();
  recorded_.zero_();
  const int64_t steps = std::min(history_.size(1), history.size(1));
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto found = std::find(layers.begin(), layers.end(), layers_[i]);
    if (found == layers.end()) continue;
    const int64_t from = kFp8Operands * (found - layers.begin()), to = kFp8Operands * static_cast<int64_t>(i);
    history_.narrow(0, to, kFp8Operands)
        .narrow(1, 0, steps)
        .copy_(history.narrow(0, from, kFp8Operands).narrow(1, 0, steps));
  }
  UseHistory();
}

}  // namespace composer
