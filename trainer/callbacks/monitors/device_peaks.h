// How many floating point operations a second a GPU can do at most, by its data sheet: the denominator of MFU.
// Dense figures: NVIDIA's tables count twice as many with structured sparsity.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/strings/string_view.h"

namespace composer {

enum class MathType { kFp32, kTf32, kFp16, kBf16, kFp8 };

// device_name: as CUDA and NVML give it, "NVIDIA H100 80GB HBM3". nullopt when the GPU or the type is not in the table.
std::optional<double> PeakFlops(absl::string_view device_name, MathType type);

}  // namespace composer
