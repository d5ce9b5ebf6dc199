// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace composer {

// Returns the whole content of a file, decompressed when its first bytes say that it is gzip and unchanged otherwise.
// Error codes are those of base/file.h, plus kInvalidArgument for a damaged or truncated gzip and kResourceExhausted
// for more than max_bytes.
absl::StatusOr<std::string> ReadMaybeGzipFile(const std::string& path, int64_t max_bytes);

}  // namespace composer
