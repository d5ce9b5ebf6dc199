// The gradient sums of a tensor-parallel run: those of `data` over the ranks with the same place in their
// tensor-parallel group, then the tail over the group too, so that all ranks hear each other's votes.
// Who writes the tail leaves what its group's ranks have alike (losses, counts, metrics) to tensor rank 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "trainer/core/communicator.h"
#include "trainer/core/gradient_sync.h"

namespace composer {

class TensorParallelSync final : public GradientSync {
 public:
  // data: with a tail of that length; null: one data-parallel rank. All must outlive this object.
  // params: those that get gradients.
  TensorParallelSync(GradientSync* data, Communicator& tensor, int tail_length, std::vector<at::Tensor> params)
      : data_(data),
        tensor_(tensor),
        params_(std::move(params)),
        own_tail_(data == nullptr ? static_cast<size_t>(tail_length) : 0) {}

  void BeginStep(int64_t passes) override {
    if (data_ != nullptr) data_->BeginStep(passes);
  }
  void BeginPass() override {
    if (data_ != nullptr) data_->BeginPass();
  }
  void EndPass() override {
    if (data_ != nullptr) data_->EndPass();
  }
  void Arm(const at::Tensor& loss) override {
    if (data_ != nullptr) data_->Arm(loss);
  }
  void Finish() override;
  absl::Span<float> tail() override { return data_ == nullptr ? absl::MakeSpan(own_tail_) : data_->tail(); }
  bool tail_sent() const override { return data_ != nullptr && data_->tail_sent(); }
  bool gradients_finite() const override { return finite_; }
  // The model's own, in forward and backward, are not counted.
  int64_t num_collectives_per_step() const override {
    return 1 + (data_ == nullptr ? 0 : data_->num_collectives_per_step());
  }

 private:
  GradientSync* data_;
  Communicator& tensor_;
  std::vector<at::Tensor> params_;
  std::vector<float> own_tail_;
  std::vector<float> sums_;  // the tail, and whether gradients are finite
  bool finite_ = true;
};

}  // namespace composer
