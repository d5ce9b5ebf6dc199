// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/communicator.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"

namespace composer {

void Communicator::AllReduceSum(absl::Span<double> values) {
  if (values.empty() || world_size() == 1) return;
  const at::Tensor host = torch::from_blob(values.data(), {static_cast<int64_t>(values.size())}, torch::kDouble);
  const at::Tensor there = host.to(device());
  AllReduceSum(there);
  if (!there.is_same(host)) host.copy_(there);
}

std::unique_ptr<Communicator> Communicator::Split(int color, const std::string& name) {
  if (world_size() == 1) return std::make_unique<LocalCommunicator>(device());
  const at::Tensor colors = torch::empty({world_size()}, torch::device(device()).dtype(at::kLong));
  StartAllGather(colors, torch::full({1}, color, colors.options()))->Wait();
  const at::Tensor same = colors.eq(color).to(at::kLong).cpu();
  const int size = static_cast<int>(same.sum().item<int64_t>());
  if (size == 1) return std::make_unique<LocalCommunicator>(device());
  const int place = static_cast<int>(same.narrow(0, 0, rank()).sum().item<int64_t>());
  return NewGroup(absl::StrCat(name, "/", color), place, size);
}

void Communicator::CountBroadcast(const at::Tensor& tensor, int root) {
  Count(rank() == root ? static_cast<int64_t>(tensor.nbytes()) * (world_size() - 1) : 0);
}

void CheckContiguous(const char* collective, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.is_contiguous(), collective, " of a tensor that is not contiguous, shape ", tensor.sizes());
}

void CheckParts(const char* collective, const at::Tensor& whole, const at::Tensor& part, int ranks) {
  CheckContiguous(collective, whole);
  CheckContiguous(collective, part);
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * ranks && whole.scalar_type() == part.scalar_type(), collective,
                    ": ", ranks, " parts of shape ", part.sizes(), " and dtype ", part.scalar_type(),
                    " do not make a tensor of shape ", whole.sizes(), " and dtype ", whole.scalar_type());
}

}  // namespace composer
