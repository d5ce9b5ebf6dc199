// The hashes that an index of shards may hold, by the names that Python's hashlib and xxhash give them: md5, sha1,
// sha224, sha256, sha384, sha512, sha3_224, sha3_256, sha3_384, sha3_512, blake2b, blake2s, xxh32, xxh64, xxh128,
// xxh3_64, xxh3_128. Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Returns the digest in lower-case hexadecimal digits; kInvalidArgument for another name, with the nearest.
absl::StatusOr<std::string> HashOf(absl::string_view algorithm, absl::string_view bytes);

// OK for a name above.
absl::Status CheckHashName(absl::string_view algorithm);

}  // namespace composer
