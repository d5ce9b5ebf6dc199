// What a run knows when it ran out of memory, gathered for out_of_memory.h's advice: the sizes of its batches, its
// allocator's numbers, the device's, and who else is there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "trainer/core/state.h"
#include "trainer/memory/out_of_memory.h"

namespace composer {

// error: what was thrown. visible_devices: CUDA_VISIBLE_DEVICES, "" when not set. To be called before the allocator's
// cache is emptied. Allocates no tensors and does not wait for the device; costs some milliseconds. What cannot be found
// out is left out.
OutOfMemoryFacts OutOfMemoryFactsOf(const State& state, absl::string_view error,
                                    absl::string_view visible_devices = "");

}  // namespace composer
