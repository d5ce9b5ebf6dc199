// The operators that the mock has kernels of its own for: memory, views, copies and what CUDA does otherwise than a
// CPU.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "tests/support/accelerator/attention.h"
#include "tests/support/accelerator/copies.h"
#include "tests/support/accelerator/device_allocator.h"
#include "tests/support/accelerator/fallback.h"
#include "tests/support/accelerator/install.h"
#include "tests/support/accelerator/shadow.h"

namespace composer::mock {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Place = std::optional<at::Device>;
using Flag = std::optional<bool>;

const c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

int DeviceIndexOf(const Place& device) {
  return device.has_value() && device->has_index() ? device->index() : CurrentDevice();
}

at::Tensor Empty(at::IntArrayRef sizes, Dtype dtype, Layout, Place device, Flag,
                 std::optional<at::MemoryFormat> format) {
  const int before = CurrentDevice();
  SetCurrentDevice(DeviceIndexOf(device));
  at::Tensor tensor =
      at::detail::empty_generic(sizes, &MockDeviceAllocator::Get(), kKeys, c10::dtype_or_default(dtype), format);
  SetCurrentDevice(before);
  return tensor;
}

at::Tensor EmptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, Dtype dtype, Layout, Place device, Flag) {
  return EmptyOnDevice(sizes, strides, c10::dtype_or_default(dtype), DeviceIndexOf(device));
}

const at::Tensor& ResizeInPlace(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const size_t needed = at::detail::computeStorageNbytesContiguous(sizes, self.element_size(),
                                                                   static_cast<size_t>(self.storage_offset()));
  c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) {
    const int before = CurrentDevice();
    SetCurrentDevice(self.get_device());
    c10::DataPtr grown = MockDeviceAllocator::Get().allocate(needed);
    if (storage->nbytes() > 0) MockDeviceAllocator::Get().copy_data(grown.get(), storage->data(), storage->nbytes());
    SetCurrentDevice(before);
    storage->set_data_ptr(std::move(grown));
    storage->set_nbytes(needed);
  }
  impl->set_sizes_contiguous(sizes);
  if (format.has_value() && *format != at::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  return self;
}

at::Tensor& SetToNothing(at::Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t{}, 0, MockDeviceAllocator::Get().allocate(0),
                       &MockDeviceAllocator::Get(), true);
  return self.set_(std::move(storage), 0, {0}, {});
}

void RecordStream(at::Tensor& self, c10::Stream stream) {
  if (!Machine::Get().Forgets(ProgramCall::kRecordStream))
    MockDeviceAllocator::Get().recordStream(self.storage().data_ptr(), stream);
}

// The same draws and products as at::dropout's on a CPU.
std::tuple<at::Tensor, at::Tensor> Dropout(const at::Tensor& input, double p, Flag train) {
  if (train.has_value() && !*train) return {input.clone(), at::ones_like(input, at::kBool)};
  at::Tensor noise = at::empty_like(input).bernoulli_(1 - p);
  at::Tensor kept = noise.to(at::kBool);
  return {input * noise.div_(1 - p), kept};
}

// CUDA converts on the way, which the CPU's kernels refuse.
at::Tensor CallWith(const char* name, torch::jit::Stack stack) {
  RunOnMock(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), &stack);
  return stack[0].toTensor();
}
at::Tensor LogSoftmax(const at::Tensor& self, int64_t dim, bool half_to_float) {
  return CallWith("aten::_log_softmax", {half_to_float ? self.to(at::kFloat) : self, dim, false});
}
at::Tensor Softmax(const at::Tensor& self, int64_t dim, bool half_to_float) {
  return CallWith("aten::_softmax", {half_to_float ? self.to(at::kFloat) : self, dim, false});
}
at::Tensor LogSoftmaxBackward(const at::Tensor& grad, const at::Tensor& output, int64_t dim, at::ScalarType input) {
  return CallWith("aten::_log_softmax_backward_data", {grad, output, dim, grad.scalar_type()}).to(input);
}
at::Tensor SoftmaxBackward(const at::Tensor& grad, const at::Tensor& output, int64_t dim, at::ScalarType input) {
  return CallWith("aten::_softmax_backward_data", {grad, output, dim, grad.scalar_type()}).to(input);
}

at::Tensor View(const at::Tensor& self, at::IntArrayRef sizes) { return at::native::view(self, sizes); }
at::Tensor AsStrided(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                     std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}
at::Tensor ReshapeAlias(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::native::_reshape_alias(self, sizes, strides);
}
at::Tensor& SetStorage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
                       at::IntArrayRef strides) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, sizes, strides);
}
at::Tensor& SetSource(at::Tensor& self, at::Storage source) { return at::native::set_(self, std::move(source)); }
at::Tensor& SetTensor(at::Tensor& self, const at::Tensor& source) { return at::native::set_tensor_(self, source); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &Empty);
  library.impl("empty_strided", &EmptyStrided);
  library.impl("as_strided", &AsStrided);
  library.impl("view", &View);
  library.impl("_reshape_alias", &ReshapeAlias);
  library.impl("unfold", &at::native::unfold);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("view_as_complex", &at::native::view_as_complex);
  library.impl("resize_", &ResizeInPlace);
  library.impl("set_", &SetToNothing);
  library.impl("set_.source_Storage", &SetSource);
  library.impl("set_.source_Storage_storage_offset", &SetStorage);
  library.impl("set_.source_Tensor", &SetTensor);
  library.impl("copy_", &Copy);
  library.impl("_local_scalar_dense", &ReadScalar);
  library.impl("record_stream", &RecordStream);
  library.impl("native_dropout", &Dropout);
  library.impl("_log_softmax", &LogSoftmax);
  library.impl("_softmax", &Softmax);
  library.impl("_log_softmax_backward_data", &LogSoftmaxBackward);
  library.impl("_softmax_backward_data", &SoftmaxBackward);
}

void Install() {
  static const bool once = [] {
    ExplainCrashes();
    c10::SetAllocator(c10::kCUDA, &MockDeviceAllocator::Get());
    InstallAttention();
    RegisterCpuKernels();
    InstallGuard();
    InstallHostSide();
    return true;
  }();
  (void)once;
}

}  // namespace composer::mock
