// ProgressiveLayerDropping leaves out whole blocks of a network of equal residual blocks in training, the more the
// longer the run and the deeper the block. When the part t of the run is done, block l of L (from 1) runs with
// probability
//
//   p_l = 1 - l / L (1 - theta(t)),   theta(t) = theta + (1 - theta) exp(-gamma t)
//
// once for a microbatch; its output is then x + (block(x) - x) / p_l, else x. In evaluation all run as they are.
// Blocks are those that the model marks (core/block.h), and keep their input's shape. What a step leaves out follows
// from seed, rank, batch and microbatch. Logs progressive_layer_dropping/theta.
//
// Source: Zhang and He 2020, arXiv:2010.13369.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "trainer/core/callback.h"

namespace composer {

struct LayerDroppingOptions {
  double theta = 0.5;  // the last value, above 0, at most 1
  double gamma = 100;  // >= 0
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const LayerDroppingOptions& options);

double LayerDroppingTheta(const LayerDroppingOptions& options, double elapsed);
// Returns p of block `index` (from 0) of `count`.
double KeepProbability(double theta, size_t index, size_t count);

class ProgressiveLayerDropping final : public Algorithm {
 public:
  explicit ProgressiveLayerDropping(const LayerDroppingOptions& options)
      : options_(options), theta_(std::make_shared<double>(1)) {}
  std::string name() const override { return "ProgressiveLayerDropping"; }
  // Before the batch is there, since SelectiveBackprop runs the model as soon as it is.
  EventSet events() const override { return {Event::kInit, Event::kBeforeDataloader}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  // Returns kInvalidArgument for a model without blocks.
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;
  // Returns kInvalidArgument at INIT with tensor parallelism, whose ranks would draw differently.
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  bool find_unused_parameters() const override { return true; }

 private:
  LayerDroppingOptions options_;
  std::shared_ptr<double> theta_;  // now; the blocks' wrappers read it
};

}  // namespace composer
