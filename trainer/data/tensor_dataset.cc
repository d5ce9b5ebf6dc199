// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/tensor_dataset.h"

#include <torch/torch.h>

#include <utility>

namespace composer {
namespace {

class TensorDataset final : public Dataset {
 public:
  TensorDataset(at::Tensor inputs, at::Tensor targets) : inputs_(std::move(inputs)), targets_(std::move(targets)) {}

  int64_t size() const override { return inputs_.size(0); }

  Batch Load(absl::Span<const int64_t> indices) const override {
    const at::Tensor rows = torch::empty({static_cast<int64_t>(indices.size())}, torch::kLong);
    std::copy(indices.begin(), indices.end(), static_cast<int64_t*>(rows.mutable_data_ptr()));
    Batch batch;
    batch.inputs = inputs_.index_select(0, rows);
    batch.targets = targets_.index_select(0, rows);
    batch.num_samples = rows.numel();
    if (inputs_.dim() == 2 && !inputs_.is_floating_point()) batch.num_tokens = batch.inputs.numel();
    return batch;
  }

 private:
  at::Tensor inputs_, targets_;
};

}  // namespace

std::shared_ptr<const Dataset> MakeTensorDataset(at::Tensor inputs, at::Tensor targets) {
  TORCH_CHECK_VALUE(inputs.defined() && targets.defined() && inputs.dim() > 0 && targets.dim() > 0 &&
                        inputs.size(0) == targets.size(0),
                    "tensor dataset: inputs and targets must have the same number of rows");
  TORCH_CHECK_VALUE(inputs.is_cpu() && targets.is_cpu(), "tensor dataset: the tensors must be on the CPU");
  return std::make_shared<TensorDataset>(std::move(inputs), std::move(targets));
}

}  // namespace composer
