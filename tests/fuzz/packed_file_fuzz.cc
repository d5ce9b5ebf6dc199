// Looks for the file of weights in a tar archive of arbitrary bytes; what is found must lie in it.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "checkpoint/torch_files/packed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto range = composer::FindInTar({reinterpret_cast<const char*>(data), size});
  if (range.ok() && (range->first > range->second || range->second > size || range->first < 512)) std::abort();
  return 0;
}
