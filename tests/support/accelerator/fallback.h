// Any operator of a device tensor: the CPU's kernel, queued on the current stream, over the kernels' view of memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace composer::mock {

// The boxed kernel. The shapes of the results are those of an earlier call with the same signature; the first such call
// runs before it returns (the host learns nothing from that).
void RunOnMock(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Registers RunOnMock for every operator that has a CPU kernel and none of the mock's own. Must run once, after the
// mock's own kernels are registered.
void RegisterCpuKernels();

}  // namespace composer::mock
