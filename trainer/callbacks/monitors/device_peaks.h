// The peak floating-point operations per second of a GPU, from its data sheet: the denominator of MFU. The figures are
// dense: NVIDIA's tables show twice as many with structured sparsity.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/strings/string_view.h"

namespace composer {

enum class MathType { kFp32, kTf32, kFp16, kBf16, kFp8 };

// device_name is as reported by CUDA and NVML, e.g. "NVIDIA H100 80GB HBM3". Returns nullopt when the GPU or the type
// is not in the table.
std::optional<double> PeakFlops(absl::string_view device_name, MathType type);

}  // namespace composer
