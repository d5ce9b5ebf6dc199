// Stops the run when the loss of a step is NaN or infinite, before its gradients reach the parameters: the last checkpoint is
// still good. Composer's looks at each rank's loss, and at NaN only; an infinite loss is NaN one step later.
// Source: mosaicml composer/callbacks/nan_monitor.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/callback.h"

namespace composer {

// Looks at the loss over all ranks, so that they all stop at the same step and nobody waits in a collective. Fails with kInvalidArgument:
// computed again, the step would give the same NaN, so the launcher must not restart it.
class NaNMonitor final : public Callback {
 public:
  std::string name() const override { return "NaNMonitor"; }
  EventSet events() const override { return {Event::kAfterTrainBatch}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;
};

}  // namespace composer
