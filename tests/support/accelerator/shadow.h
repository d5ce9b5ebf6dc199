// The kernels' view of tensors: CPU tensors of the same sizes, strides, offset and flags over the other mapping of the
// same memory. They hold addresses only, so that a queued kernel keeps no memory alive, as on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "tests/support/accelerator/machine.h"

namespace composer::mock {

// Of one operator call: tensors that share a storage share its shadow, so that overlap checks of kernels see it.
class Shadows {
 public:
  // A tensor of a device, or a pinned one. Records its bytes as read, or written.
  at::Tensor Of(const at::Tensor& tensor, bool writes);
  std::vector<Access> TakeUses() { return std::move(uses_); }

 private:
  std::map<const c10::StorageImpl*, c10::Storage> storages_;
  std::vector<Access> uses_;
};

bool IsPinned(const at::Tensor& tensor);
// The bytes between a tensor's first and last element.
Access BytesOf(const at::Tensor& tensor, bool writes);
// A tensor of the device with these sizes and strides, in fresh memory of the current stream.
at::Tensor EmptyOnDevice(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, int device);

}  // namespace composer::mock
