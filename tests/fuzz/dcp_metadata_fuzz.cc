// Runs ReadDcpMetadata on arbitrary bytes. In accepted input every part must lie within its tensor, be no larger than
// its place in a file beside it, and the parts' volumes must add up to the tensor's.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "checkpoint/format/reshard.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/torch_files/dcp_metadata.h"

namespace {

void Check(const composer::DcpMetadata& metadata, const composer::TensorEntry& tensor) {
  if (!composer::TensorBytes(tensor.dtype, tensor.shape).ok() || tensor.boxes.empty()) std::abort();
  int64_t volume = 0;
  for (const composer::Box& box : tensor.boxes) {
    const auto bytes = composer::TensorBytes(tensor.dtype, box.shape);
    if (!bytes.ok() || box.begin < 0 || *bytes > box.end - box.begin) std::abort();
    if (box.file < 0 || static_cast<size_t>(box.file) >= metadata.files.size()) std::abort();
    if (box.shape.size() != tensor.shape.size() || box.offset.size() != tensor.shape.size()) std::abort();
    for (size_t d = 0; d < box.shape.size(); ++d) {
      if (box.offset[d] < 0 || box.offset[d] + box.shape[d] > tensor.shape[d]) std::abort();
    }
    volume += composer::Volume(box.shape);
  }
  if (volume != composer::Volume(tensor.shape)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto metadata = composer::ReadDcpMetadata({reinterpret_cast<const char*>(data), size});
  if (!metadata.ok()) return 0;
  for (const composer::FileEntry& file : metadata->files) {
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name == "..") std::abort();
  }
  for (const composer::TensorEntry& tensor : metadata->tensors) Check(*metadata, tensor);
  return 0;
}
