// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <sys/random.h>

#include <cstring>

#include "absl/strings/escaping.h"
#include "base/log.h"

namespace composer {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  CHECK_EQ(getrandom(bytes.data(), count, 0), static_cast<ssize_t>(count)) << "the kernel gives no random bytes";
  return bytes;
}

uint64_t RandomBits() {
  uint64_t bits = 0;
  std::memcpy(&bits, RandomBytes(sizeof(bits)).data(), sizeof(bits));
  return bits;
}

std::string RandomHex(size_t bytes) { return absl::BytesToHexString(RandomBytes(bytes)); }

}  // namespace composer
