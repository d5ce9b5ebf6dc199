// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/tensor_dataset.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace composer {
namespace {

// Below this, the set-up of an index_select takes longer than copying (callgrind: 11 thousand instructions).
constexpr int64_t kFewBytes = 1 << 16;

// Returns these rows of a tensor on the CPU.
at::Tensor RowsOf(const at::Tensor& tensor, absl::Span<const int64_t> indices) {
  const int64_t row_bytes = static_cast<int64_t>(tensor.nbytes()) / std::max<int64_t>(1, tensor.size(0));
  const auto count = static_cast<int64_t>(indices.size());
  if (!tensor.is_contiguous() || row_bytes * count > kFewBytes)
    return tensor.index_select(0, torch::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong));
  c10::SmallVector<int64_t, 5> shape(tensor.sizes().begin(), tensor.sizes().end());
  shape[0] = count;
  at::Tensor rows = at::empty(shape, tensor.options().requires_grad(false));
  const auto* const from = static_cast<const char*>(tensor.const_data_ptr());
  auto* to = static_cast<char*>(rows.mutable_data_ptr());
  for (const int64_t index : indices) {
    TORCH_CHECK_INDEX(0 <= index && index < tensor.size(0), "sample ", index, " of ", tensor.size(0));
    std::memcpy(to, from + index * row_bytes, static_cast<size_t>(row_bytes));
    to += row_bytes;
  }
  return rows;
}

class TensorDataset final : public Dataset {
 public:
  TensorDataset(at::Tensor inputs, at::Tensor targets) : inputs_(std::move(inputs)), targets_(std::move(targets)) {}

  int64_t size() const override { return inputs_.size(0); }

  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch;
    batch.inputs = RowsOf(inputs_, indices);
    batch.targets = RowsOf(targets_, indices);
    batch.num_samples = static_cast<int64_t>(indices.size());
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
