// Copies between host and device, as CUDA makes them: within a device they are queued; to the device from pageable
// memory they read it at the call; with pinned memory and non_blocking they read or write it later; all others to the
// host make it wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer::mock {

at::Tensor& Copy(at::Tensor& to, const at::Tensor& from, bool non_blocking);
// The value of a tensor of one element; the host waits.
at::Scalar ReadScalar(const at::Tensor& tensor);

}  // namespace composer::mock
