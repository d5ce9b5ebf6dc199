// These functions map torch's dtypes to their safetensors names and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Returns "" for what safetensors cannot hold (quantized types, complex128).
absl::string_view DTypeName(at::ScalarType type);
// Returns nullopt for what this torch cannot hold (4- and 6-bit floats).
std::optional<at::ScalarType> DTypeFromName(absl::string_view name);

}  // namespace composer
