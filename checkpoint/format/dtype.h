// torch's dtypes by their safetensors names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// "" for what safetensors cannot hold (quantized types, complex128).
absl::string_view DTypeName(at::ScalarType type);
// nullopt for what this torch cannot hold (4- and 6-bit floats).
std::optional<at::ScalarType> DTypeFromName(absl::string_view name);

}  // namespace composer
