// Where a checkpoint was made, for whoever reads it later; nothing is loaded from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace composer {

// Returns a JSON object of at most 1.5 KB: `os`, `kernel`, `processor` and, with a GPU, `gpu` and `driver`. Reads files
// of the system and asks NVML at the first call, and gives the same text to later ones.
const std::string& SavedEnvironment(at::Device device);

}  // namespace composer
