// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/shadow.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include "tests/support/accelerator/device_allocator.h"

namespace composer::mock {

bool IsPinned(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.has_storage() && PinnedArena().Contains(tensor.storage().data());
}

Access BytesOf(const at::Tensor& tensor, bool writes) {
  const auto base = reinterpret_cast<uintptr_t>(tensor.storage().data());
  if (base == 0 || tensor.numel() == 0) return {0, 0, writes};
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto width = static_cast<uintptr_t>(tensor.element_size());
  const uintptr_t begin = base + static_cast<uintptr_t>(tensor.storage_offset()) * width;
  return {begin, begin + static_cast<uintptr_t>(last + 1) * width, writes};
}

at::Tensor Shadows::Of(const at::Tensor& tensor, bool writes) {
  const c10::Storage& real = tensor.storage();
  auto found = storages_.find(real.unsafeGetStorageImpl());
  if (found == storages_.end()) {
    void* address = const_cast<void*>(real.data());
    if (address != nullptr) address = (tensor.is_cpu() ? PinnedArena() : DeviceArena()).Kernel(address);
    // Resizable, since an operator may resize its out tensor; the new memory is then the CPU's.
    c10::Storage shadow(c10::Storage::use_byte_size_t{}, real.nbytes(), c10::DataPtr(address, c10::kCPU),
                        c10::GetCPUAllocator(), /*resizable=*/true);
    found = storages_.emplace(real.unsafeGetStorageImpl(), std::move(shadow)).first;
  }
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(found->second),
                                                   c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.is_conj()) impl->_set_conj(true);
  if (tensor.is_neg()) impl->_set_neg(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  const Access bytes = BytesOf(tensor, writes);
  if (bytes.begin < bytes.end) uses_.push_back(bytes);
  return at::Tensor(std::move(impl));
}

at::Tensor EmptyOnDevice(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, int device) {
  const int before = CurrentDevice();
  SetCurrentDevice(device);
  at::Tensor tensor = at::detail::empty_strided_generic(sizes, strides, &MockDeviceAllocator::Get(),
                                                        c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype);
  SetCurrentDevice(before);
  return tensor;
}

}  // namespace composer::mock
