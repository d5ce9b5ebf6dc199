// The common part of algorithms that only change the model: they do so when it is made, are required by its
// checkpoints, and say at INIT what they did.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/core/callback.h"
#include "trainer/layers/layer_policy.h"

namespace composer {

// Returns those of the run's policies that are for this algorithm.
std::vector<LayerPolicy> PoliciesFor(const Algorithm& algorithm, const ModelContext& context);

// Returns the model's class without its namespace, for messages.
std::string ClassNameOf(const Model& model);

class Surgery : public Algorithm {
 public:
  EventSet events() const override { return {Event::kInit}; }
  bool Match(Event event, const State& state) const override { return event == Event::kInit; }
  // Logs LayersOf as hyperparameters, and warns on rank 0 when there are no such layers.
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  bool required_on_load() const final { return true; }

 protected:
  // Replaces layers by the policies that the run has for this algorithm, and others by `own` (layers/layer_policy.h).
  // What the policies made is counted at INIT as <algorithm>/num_<policy>_layers.
  void ReplaceLayersOf(Model& model, const ModelContext& context, const ReplacementPolicy& own);
  // Returns the numbers of layers in a changed model, by kind: ("blurpool/num_blurconv_layers", 2).
  virtual std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const = 0;
  // Returns what it looks for, in the singular, for the warning that a model has none.
  virtual std::string wanted() const { return "layer that it replaces"; }

 private:
  std::vector<LayerPolicy> policies_;
};

}  // namespace composer
