// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/state.h"

namespace composer {

absl::string_view PrecisionName(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "fp32";
    case Precision::kAmpBf16:
      return "amp_bf16";
    case Precision::kAmpFp16:
      return "amp_fp16";
    case Precision::kAmpFp8:
      return "amp_fp8";
  }
  return "";
}

}  // namespace composer
