// TensorParallelSync makes the gradient sums of a tensor-parallel run: those of `data` over the ranks with the same
// place in their tensor-parallel group, then the tail over the group too, so that all ranks see each other's votes.
// What is equal on the ranks of a group (losses, counts, metrics) must be written to the tail by tensor rank 0 only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "trainer/core/communicator.h"
#include "trainer/core/gradient_sync.h"

namespace composer {

class TensorParallelSync final : public GradientSync {
 public:
  // Both must outlive this object.
  TensorParallelSync(GradientSync& data, Communicator& tensor) : data_(data), tensor_(tensor) {}

  void BeginStep(int64_t passes) override { data_.BeginStep(passes); }
  void BeginPass() override { data_.BeginPass(); }
  void EndPass() override { data_.EndPass(); }
  void Arm(const at::Tensor& loss) override { data_.Arm(loss); }
  void Finish() override;
  absl::Span<float> tail() override { return data_.tail(); }
  void SetDeviceTail(DeviceTail tail) override { data_.SetDeviceTail(std::move(tail)); }
  bool tail_sent() const override { return data_.tail_sent(); }
  bool gradients_finite() const override { return finite_; }
  // Does not count the model's own collectives in forward and backward.
  int64_t num_collectives_per_step() const override { return 1 + data_.num_collectives_per_step(); }
  bool keeps_local() const override { return data_.keeps_local(); }

 private:
  GradientSync& data_;
  Communicator& tensor_;
  std::vector<float> sums_;  // the tail, and whether gradients are finite
  bool finite_ = true;
};

}  // namespace composer
