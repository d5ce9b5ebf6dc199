// This gathers what a run knows when it runs out of memory, for out_of_memory.h's advice: the sizes of its batches, the
// numbers of its allocator and of the device, and who else uses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "trainer/core/state.h"
#include "trainer/memory/out_of_memory.h"

namespace composer {

// `error` is the message thrown; visible_devices is CUDA_VISIBLE_DEVICES, "" if unset. Must be called before the
// allocator's cache is emptied. Allocates no tensors and does not wait for the device; costs some milliseconds. What
// cannot be found out is left out.
OutOfMemoryFacts OutOfMemoryFactsOf(const State& state, absl::string_view error,
                                    absl::string_view visible_devices = "");

}  // namespace composer
