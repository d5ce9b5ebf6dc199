// LocalSync is the GradientSync of a single rank: it has nothing to sum, and only checks that gradients are finite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "trainer/core/gradient_sync.h"
#include "trainer/step/finite_check.h"

namespace composer {

class LocalSync final : public GradientSync {
 public:
  LocalSync(std::vector<at::Tensor> params, int tail_length)
      : params_(std::move(params)), tail_(static_cast<size_t>(tail_length)) {}
  // Does not wait for the GPU; gradients_finite() does, unless the verdict was read.
  void Finish() override;
  absl::Span<float> tail() override { return absl::MakeSpan(tail_); }
  bool tail_sent() const override { return false; }
  // Has the verdict about the gradients read with other numbers; call it between Finish and gradients_finite.
  void ReadWith(DeviceRead& read) { check_.ReadWith(read); }
  // Makes the slot, a zero on the GPU, nonzero if a gradient is not finite. Does not wait.
  void WriteTo(const at::Tensor& slot) const { check_.WriteTo(slot); }
  bool gradients_finite() const override { return check_.finite(); }
  int64_t num_collectives_per_step() const override { return 0; }
  bool keeps_local() const override { return true; }
  bool is_alone() const override { return true; }

 private:
  std::vector<at::Tensor> params_;
  std::vector<float> tail_;
  FiniteCheck check_;
};

}  // namespace composer
