// A tensor in a file, as an operation of torch: a model whose parameters have no memory yet (init/deferred_init.h)
// records where its values are, and each rank reads those that it needs, when it needs them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/safetensors.h"

namespace composer {

struct StoredTensor {
  std::string file;
  SafetensorsEntry entry;
  at::ScalarType dtype = at::kFloat;
  int64_t identity = 0;  // of the file's header: ranks that read different files have different models
};

// Returns the values as a view of the mapped file, which must not be written to; without memory while operations are
// deferred. Throws StatusError when the file cannot be read or has become shorter.
at::Tensor StoredValues(const StoredTensor& tensor);

}  // namespace composer
