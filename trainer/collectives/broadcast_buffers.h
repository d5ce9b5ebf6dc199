// This makes equal on all ranks what is not averaged over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/communicator.h"
#include "trainer/core/state.h"

namespace composer {

// Copies rank 0's buffers of the model (BatchNorm's running statistics) and rank 0's tensors that algorithms keep whole
// on every rank to all ranks, as DDP's broadcast does: one collective per dtype and kBroadcastBytes.
inline constexpr int64_t kBroadcastBytes = 32 << 20;
void BroadcastBuffers(const State& state, Communicator& communicator);

}  // namespace composer
