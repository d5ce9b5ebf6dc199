// Adam's update during backward (AdamOptions::in_backward) within a training step: what does not go with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "trainer/core/state.h"

namespace composer {

// Has the run's optimizer update in backward if its options say so. Returns kInvalidArgument that names the setting
// which does not go with that. `alone`: this rank holds the whole model and sums its gradients with nobody.
absl::Status BeginInBackward(State& state, bool alone);

// Returns whether the run's optimizer updates in backward.
bool UpdatesInBackward(const State& state);

}  // namespace composer
