// Frames of LZ4, as the program lz4 writes and reads them, by liblz4, which is loaded when it is first needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Calls `take` with what one or more frames hold, piece by piece. kDataLoss if they are damaged or cut off,
// kUnimplemented without the library, or what `take` returns.
absl::Status UnpackLz4(absl::string_view frames, absl::FunctionRef<absl::Status(absl::string_view)> take);

// Returns one frame with a checksum of all its content.
absl::StatusOr<std::string> PackLz4(absl::string_view bytes);

}  // namespace composer
