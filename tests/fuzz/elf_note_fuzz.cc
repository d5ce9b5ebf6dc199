// Runs FindElfNote on arbitrary bytes after the start of a valid header: what it finds must lie in the file.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/elf_note.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string file(
      "\x7f"
      "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0",
      20);
  file.append(bytes.data(), bytes.size());
  for (const absl::string_view input : {bytes, absl::string_view(file)}) {
    const auto note = composer::FindElfNote(input, "Composer", 1);
    if (note.ok() && input.find(*note) == absl::string_view::npos) std::abort();
  }
  return 0;
}
