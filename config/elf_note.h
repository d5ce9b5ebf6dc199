// Reads a note of a shared library from the file's bytes: nothing of the library is loaded or run.
// Source: System V ABI, chapter 5 (program headers, note section); elf(5).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Returns the content of the first note with this owner and type. The bytes may be hostile.
// kInvalidArgument: not an ELF file, truncated (even if the note is intact), for another kind of machine, or not a
// shared library. kNotFound: a shared library without such a note.
absl::StatusOr<std::string> FindElfNote(absl::string_view file, absl::string_view owner, uint32_t type);

}  // namespace composer
