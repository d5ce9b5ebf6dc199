// Makes what is not averaged over ranks the same on all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/communicator.h"
#include "trainer/core/state.h"

namespace composer {

// Buffers of the model (BatchNorm's running statistics), and what algorithms keep whole on every rank = rank 0's, as DDP's
// broadcast does: one collective for each dtype and kBroadcastBytes of them.
inline constexpr int64_t kBroadcastBytes = 32 << 20;
void BroadcastBuffers(const State& state, Communicator& communicator);

}  // namespace composer
