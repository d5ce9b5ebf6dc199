// Random bits of the kernel (getrandom), for names, keys and seeds that nobody may guess or draw twice.
//
// Linux hands out up to 256 bytes at once without an error as soon as it has started, so that no caller needs a way to
// go on without them: where it does not, the process ends. Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace composer {

// `count` is at most 256.
std::string RandomBytes(size_t count);
uint64_t RandomBits();
// Returns digits of 0-9a-f, two for each byte.
std::string RandomHex(size_t bytes);

}  // namespace composer
