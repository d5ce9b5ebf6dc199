// A dataset that consists of two tensors in memory, like torch.utils.data.TensorDataset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "trainer/core/dataset.h"

namespace composer {

// Sample i is row i of both: inputs [N, …], targets [N, …], any dtypes. A batch's num_tokens is B * T when the inputs
// are integers of shape [N, T], else 0. The tensors are shared, not copied, and must not be modified. Throws
// c10::ValueError unless both are on the CPU and have the same N.
std::shared_ptr<const Dataset> MakeTensorDataset(at::Tensor inputs, at::Tensor targets);

}  // namespace composer
