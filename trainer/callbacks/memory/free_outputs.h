// Releases the model's outputs before backward starts, so that backward can reuse their memory. This is for models
// whose outputs are large (the logits of a language model) and not needed by backward. Train metrics, if any, have seen
// the outputs by then.
// Source: mosaicml composer/callbacks/free_outputs.py, which frees them before the train metrics see them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/callback.h"
#include "trainer/core/state.h"

namespace composer {

class FreeOutputs final : public Callback {
 public:
  std::string name() const override { return "FreeOutputs"; }
  EventSet events() const override { return {Event::kBeforeBackward}; }
  absl::Status Run(Event event, State& state, Logger& logger) override {
    state.outputs = at::Tensor();
    return absl::OkStatus();
  }
};

}  // namespace composer
