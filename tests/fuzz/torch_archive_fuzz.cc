// Opens a TorchArchive of arbitrary bytes, and reads its pickle and the first bytes of its storages.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "checkpoint/torch_files/torch_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto archive = composer::TorchArchive::Open(bytes);
  if (!archive.ok()) return 0;
  for (const char* record : {"data.pkl", "data/0", "data/1", "version"}) {
    const auto record_bytes = archive->Size(record);
    if (!record_bytes.ok()) continue;
    if (*record_bytes < 0 || static_cast<size_t>(*record_bytes) > size) std::abort();
    std::string content(static_cast<size_t>(*record_bytes), '\0');
    const bool is_read = archive->Read(record, absl::MakeSpan(content)).ok();
    if (is_read && !content.empty() && bytes.find(content) == absl::string_view::npos) std::abort();
  }
  return 0;
}
