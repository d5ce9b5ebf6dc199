// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/hf/stored_values.h"

#include <torch/library.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "storage/mapped_file.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

// identity is not read: it makes the operation, as recorded, a different one.
at::Tensor ReadStored(const std::string& file, int64_t begin, int64_t end, int64_t /*identity*/, at::IntArrayRef shape,
                      at::ScalarType dtype, at::Device device) {
  if (device.is_meta() || begin == end) return at::empty(shape, at::TensorOptions(dtype).device(device));
  absl::StatusOr<std::shared_ptr<const MappedFile>> mapped = MappedFile::Open(file);
  ThrowIfError(mapped.status());
  const absl::string_view bytes = (*mapped)->bytes();
  if (end > static_cast<int64_t>(bytes.size()))
    throw StatusError(absl::DataLossError(absl::StrCat(file, ": it became shorter while it was read")));
  void* const data = const_cast<char*>(bytes.data() + begin);  // only read
  return at::from_blob(data, shape, [keep = *mapped](void*) {}, at::TensorOptions(dtype));
}

// Installed once per process, for the process's lifetime, as torch has it.
const c10::OperatorHandle& Operation() {
  static const auto* const library = [] {
    auto* made = new torch::Library(torch::Library::DEF, "composer", std::nullopt, __FILE__, __LINE__);
    made->def(
        "stored_values(str file, int begin, int end, int identity, int[] shape, ScalarType dtype, Device device) -> "
        "Tensor",
        torch::CppFunction(&ReadStored));
    return made;
  }();
  (void)library;
  static const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("composer::stored_values", "");
  return handle;
}

}  // namespace

at::Tensor StoredValues(const StoredTensor& tensor) {
  static const auto operation = Operation()
                                    .typed<at::Tensor(const std::string&, int64_t, int64_t, int64_t, at::IntArrayRef,
                                                      at::ScalarType, at::Device)>();
  return operation.call(tensor.file, tensor.entry.begin, tensor.entry.end, tensor.identity, tensor.entry.shape,
                        tensor.dtype, at::kCPU);
}

}  // namespace composer
