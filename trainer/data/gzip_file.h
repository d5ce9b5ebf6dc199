// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace composer {

// The whole content of a file, unpacked when it is gzip (told by its first bytes), as it is otherwise.
// Codes as base/file.h's; kInvalidArgument for a damaged or cut-off gzip, kResourceExhausted for more than max_bytes.
absl::StatusOr<std::string> ReadMaybeGzipFile(const std::string& path, int64_t max_bytes);

}  // namespace composer
