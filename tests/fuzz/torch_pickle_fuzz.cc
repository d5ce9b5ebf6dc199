// Runs Pickle::Parse and ReadTorchPickle on arbitrary bytes. In accepted input every tensor must lie within its storage
// and have no more elements than it.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "base/time.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/torch_files/composer_pickle.h"
#include "checkpoint/torch_files/pickle.h"
#include "checkpoint/torch_files/torch_pickle.h"

namespace {

void Check(const composer::TorchTensor& tensor) {
  if (tensor.shape.size() != tensor.stride.size() || tensor.offset < 0) std::abort();
  if (!composer::TensorBytes(tensor.dtype, {}).ok()) std::abort();
  int64_t last = tensor.offset, elements = 1;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] == 0) return;
    elements *= tensor.shape[d];
    last += (tensor.shape[d] - 1) * tensor.stride[d];
  }
  if (last >= tensor.storage_elements || elements > tensor.storage_elements) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const char* key : {"", "state/model"}) {
    const auto weights = composer::ReadTorchPickle(bytes, key);
    if (!weights.ok()) continue;
    std::set<std::string> names;
    for (const composer::TorchTensor& tensor : weights->tensors) {
      Check(tensor);
      if (!names.insert(tensor.name).second) std::abort();
    }
  }
  if (const auto state = composer::ReadComposerPickle(bytes); state.ok() && state->has_value()) {
    for (const composer::ComposerSlot& slot : (*state)->slots) Check(slot.tensor);
    if (!composer::Timestamp::FromJson((*state)->timestamp).ok()) std::abort();
  }
  return 0;
}
