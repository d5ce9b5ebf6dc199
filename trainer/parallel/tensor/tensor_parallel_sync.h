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
  // `data` has a tail of that length; null if there is one data-parallel rank. `params` are those that get gradients.
  // All must outlive this object.
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
  // Does not count the model's own collectives in forward and backward.
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
