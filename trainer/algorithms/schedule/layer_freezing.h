// LayerFreezing freezes the layers of a model one after the other, from the first on: at the end of each epoch the
// first floor(f (L - 1)) of its L layers with parameters, in the order of the model, with
//
//   f = freeze_level (elapsed - freeze_start) / (1 - freeze_start) after freeze_start, 0 before
//
// Frozen parameters get no gradient, update or weight decay; checkpoints keep which they are. Logs
// layer_freezing/layers_frozen and layer_freezing/percentage_frozen. The last layer is never frozen.
// Source: Brock et al. 2017, arXiv:1706.04983; mosaicml composer/algorithms/layer_freezing/layer_freezing.py, whose
// runs cannot be resumed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "trainer/core/callback.h"
#include "trainer/core/model.h"

namespace composer {

struct LayerFreezingOptions {
  double freeze_start = 0.5;  // the part of the run before freezing begins, at least 0 and below 1
  double freeze_level = 1.0;  // the part of the layers that is frozen at its end, 0 to 1
};

// Returns f of the formula above.
double FrozenPart(const LayerFreezingOptions& options, double elapsed);

// Freezes the parameters of the first layers of the model, this part of them. Returns how many layers these are.
int64_t FreezeLayers(torch::nn::Module& model, double part);

class LayerFreezing final : public Algorithm {
 public:
  explicit LayerFreezing(const LayerFreezingOptions& options = {}) : options_(options) {}
  std::string name() const override { return "LayerFreezing"; }
  EventSet events() const override { return {Event::kEpochEnd}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  bool find_unused_parameters() const override { return true; }

 private:
  LayerFreezingOptions options_;
};

}  // namespace composer
