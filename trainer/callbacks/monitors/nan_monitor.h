// Stops the run when the loss of a step is NaN or infinite, before its gradients reach the parameters, so the last
// checkpoint is still good. Composer's checks each rank's loss, and for NaN only; an infinite loss becomes NaN one step
// later.
// Source: mosaicml composer/callbacks/nan_monitor.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/callback.h"

namespace composer {

// Checks the loss over all ranks, so that they all stop at the same step and none waits in a collective. Fails with
// kInvalidArgument: the step would give the same NaN when repeated, so the launcher must not restart it.
class NaNMonitor final : public Callback {
 public:
  std::string name() const override { return "NaNMonitor"; }
  EventSet events() const override { return {Event::kAfterTrainBatch}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;
};

}  // namespace composer
