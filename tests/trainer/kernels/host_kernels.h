// Our own kernels as those of the CPU, by tests/support/kernels: what models then call, and what is between LibTorch
// and the kernels, is the product's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

#include "tests/support/kernels/execution.h"
#include "worker/cuda/kernels/operators.h"

namespace composer {

class HostKernels {
 public:
  HostKernels() {
    device::RegisterOperators(library_, [] { return static_cast<void*>(nullptr); });
  }
  // Blocks that have run since the last call.
  int64_t TakeBlocks() {
    const int64_t now = execution::BlocksRun();
    return now - std::exchange(seen_, now);
  }

 private:
  torch::Library library_{torch::Library::IMPL, "composer", c10::DispatchKey::CPU, __FILE__, __LINE__};
  int64_t seen_ = execution::BlocksRun();
};

}  // namespace composer
