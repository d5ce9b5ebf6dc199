// Little-endian numbers: reading them from anywhere in a string, and appending them. The machine must be little-endian
// itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

static_assert(std::endian::native == std::endian::little);

// Returns the number at `offset`; the caller has checked that it is there.
template <typename T = uint32_t>
T NumberAt(absl::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T = uint32_t>
void AppendNumber(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace composer
