// Stops the run when a loss is NaN or infinite, before the gradients of it reach the parameters: the last checkpoint is
// still good. Composer's stops at NaN only; an infinite loss is NaN one step later.
// Source: mosaicml composer/callbacks/nan_monitor.py. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/callback.h"

namespace composer {

// Looks at every microbatch's loss, which waits for the GPU where there is one. Fails with kOutOfRange.
class NaNMonitor final : public Callback {
 public:
  std::string name() const override { return "NaNMonitor"; }
  EventSet events() const override { return {Event::kAfterLoss}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;
};

}  // namespace composer
