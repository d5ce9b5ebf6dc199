// Lists arbitrary bytes as a tar archive: every file must lie in it, after the one before.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "data/codec/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view archive(reinterpret_cast<const char*>(data), size);
  const auto entries = composer::ReadTar(archive);
  if (!entries.ok()) return 0;
  const char* last = archive.data();
  for (const composer::TarEntry& entry : *entries) {
    if (entry.bytes.data() < last || entry.bytes.end() > archive.end()) std::abort();
    last = entry.bytes.end();
  }
  return 0;
}
