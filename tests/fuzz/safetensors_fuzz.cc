// Runs ParseSafetensors on arbitrary bytes: as a whole file, and as the JSON of a header followed by 64 bytes of data.
// The tensors of accepted input must fill the file exactly, and must be accepted again when laid out again.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "checkpoint/format/safetensors.h"

namespace {

using composer::SafetensorsEntry;

void Try(absl::string_view header, int64_t file_bytes) {
  auto entries = composer::ParseSafetensors(header, file_bytes);
  if (!entries.ok()) return;
  int64_t position = static_cast<int64_t>(header.size());
  for (const SafetensorsEntry& entry : *entries) {
    const auto bytes = composer::TensorBytes(entry.dtype, entry.shape);
    if (!bytes.ok() || entry.begin != position || entry.end - entry.begin != *bytes) std::abort();
    position = entry.end;
  }
  if (position != file_bytes) std::abort();
  const int64_t data_bytes = position - static_cast<int64_t>(header.size());
  const auto again = composer::LayOutSafetensors(&*entries);
  if (!again.ok()) return;  // we do not write one name that we accept, the empty one
  if (!composer::ParseSafetensors(*again, static_cast<int64_t>(again->size()) + data_bytes).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header_bytes = composer::SafetensorsHeaderBytes(bytes.substr(0, 8), static_cast<int64_t>(size));
  if (header_bytes.ok()) Try(bytes.substr(0, static_cast<size_t>(*header_bytes)), static_cast<int64_t>(size));
  std::string length(8, '\0');
  for (size_t i = 0, n = size; i < 8; ++i, n >>= 8) length[i] = static_cast<char>(n & 0xff);
  const std::string header = absl::StrCat(length, bytes);
  for (const int64_t data_bytes : {0, 8, 64}) Try(header, static_cast<int64_t>(header.size()) + data_bytes);
  return 0;
}
