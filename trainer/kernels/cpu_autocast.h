// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/autocast_mode.h>

namespace composer::kernels {

// Whether autocast is on for this thread's work on a CPU, and to bfloat16.
inline bool CpuAutocastsToBf16() {
  return at::autocast::is_autocast_enabled(at::kCPU) && at::autocast::get_autocast_dtype(at::kCPU) == at::kBFloat16;
}

}  // namespace composer::kernels
