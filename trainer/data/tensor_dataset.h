// A dataset that is two tensors in memory, as torch.utils.data.TensorDataset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "trainer/core/dataset.h"

namespace composer {

// Sample i is row i of both: inputs [N, …], targets [N, …], any dtypes. num_tokens of a batch: B * T when the inputs are
// whole numbers of shape [N, T], else 0. The tensors are shared, not copied: leave them alone. Throws c10::ValueError
// unless both are on the CPU and have the same N.
std::shared_ptr<const Dataset> MakeTensorDataset(at::Tensor inputs, at::Tensor targets);

}  // namespace composer
