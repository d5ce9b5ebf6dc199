// SPDX-License-Identifier: Apache-2.0
#include "worker/cuda/kernel_choice.h"

#include "absl/strings/str_cat.h"

namespace composer {

KernelChoice ChooseKernels(KernelsKey key, int capability) {
  constexpr int kOldest = 80;
  if (key == KernelsKey::kOff) return {false, "kernels: off; LibTorch's operators are used"};
  if (capability < kOldest) {
    return {false, absl::StrCat("kernels: auto, but this GPU's compute capability is ", capability / 10, ".",
                                capability % 10, ", and our kernels need 8.0; LibTorch's operators are used")};
  }
  return {true, "kernels: auto; norms, GELU, SwiGLU, rotary positions and the loss of chunks have kernels of our own"};
}

}  // namespace composer
