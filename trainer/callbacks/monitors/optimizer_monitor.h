// Logs, every `interval` batches, the L2 norms of the optimizer's tensors in the batch that just ended:
//
//   l2_norm/grad/global          of all gradients together: sqrt(sum of squares of the ones below)
//   l2_norm/grad/<parameter>     of its gradient as the optimizer saw it: reduced over ranks, unscaled, clipped
//   l2_norm/param/<parameter>    after the step
//   l2_norm/update/<parameter>   of the change made by the step: value after - value before, for any optimizer
//   l2_norm/moment/<parameter>   of exp_avg (Adam) or momentum_buffer (SGD) after the step, where the optimizer has one
//
// Parameters without a gradient are left out. With log_optimizer_metrics: false only the gradients are logged.
//
// The norms are taken at BATCH_END. The loop drops gradients at the start of the next step, not at the end of this one,
// so they still exist then. For `update` the parameters are copied at AFTER_TRAIN_BATCH, right before the optimizer
// steps: between the two events the callback holds one more copy of the parameters, in a measured batch only. (Composer
// computes the update from Adam's state instead: without a copy, but only for its own AdamW, and with the parameters
// after the step in the weight decay.)
// A measured batch costs one foreach_norm and one transfer per dtype, not a norm and a wait per parameter.
// Norms of sharded or split parameters are those of the whole ones, by one collective per measured batch.
// Source: mosaicml composer/callbacks/optimizer_monitor.py, optim/decoupled_weight_decay.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/core/callback.h"
#include "trainer/core/logger.h"

namespace composer {

// On ranks whose logger writes nothing, it only takes part in that collective.
class OptimizerMonitor final : public Callback {
 public:
  struct Options {
    int64_t interval = 10;  // batches, at least 1; Composer's batch_log_interval
    bool log_optimizer_metrics = true;
  };
  explicit OptimizerMonitor(const Options& options) : options_(options) {}

  std::string name() const override { return "OptimizerMonitor"; }
  EventSet events() const override { return {Event::kAfterTrainBatch, Event::kBatchEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  void CopyParameters(const State& state);
  void LogNorms(State& state, Logger& logger);

  Options options_;
  std::vector<at::Tensor> before_;  // parameters with a gradient, in the order of the groups; empty between batches
};

// Returns the L2 norm of each tensor, in the same order, as float64. Runs one foreach_norm for each dtype and device.
std::vector<double> L2Norms(const std::vector<at::Tensor>& tensors);

}  // namespace composer
