// RunPredict runs a model over data that needs no targets: PREDICT_START … PREDICT_END. Source: mosaicml
// composer/trainer/trainer.py, predict().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "trainer/core/engine.h"
#include "trainer/core/state.h"
#include "trainer/data/prefetcher.h"

namespace composer {

// Runs this rank's share of every batch through Model::forward in evaluation mode, in the loader's order. Returns the
// outputs by batch, on the CPU; empty unless return_outputs (a callback at PREDICT_AFTER_FORWARD may take state.outputs
// instead). Batches without a sample for this rank are left out. Throws what the model throws, and StatusError from
// callbacks.
std::vector<Outputs> RunPredict(const Loader& loader, Prefetcher& batches, bool return_outputs, State& state,
                                Engine& engine);

}  // namespace composer
