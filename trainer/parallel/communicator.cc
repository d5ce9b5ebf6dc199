// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/communicator.h"

#include <torch/torch.h>

namespace composer {

void Communicator::AllReduceSum(absl::Span<double> values) {
  if (values.empty() || world_size() == 1) return;
  const at::Tensor host = torch::from_blob(values.data(), {static_cast<int64_t>(values.size())}, torch::kDouble);
  const at::Tensor there = host.to(device());
  AllReduceSum(there);
  if (!there.is_same(host)) host.copy_(there);
}

}  // namespace composer
