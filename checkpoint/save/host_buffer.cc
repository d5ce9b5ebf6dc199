// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/host_buffer.h"

#include <torch/types.h>

namespace composer {

void HostBuffer::Reserve(int64_t bytes) {
  if (bytes_.defined() && bytes <= capacity()) return;
  bytes_.reset();  // freed first, so that the two are never held at once
  bytes_ = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(pinned_));
}

at::Tensor HostBuffer::View(int64_t offset, at::ScalarType dtype, at::IntArrayRef shape) const {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : shape) bytes *= size;
  return bytes_.narrow(0, offset, bytes).view(dtype).view(shape);
}

}  // namespace composer
