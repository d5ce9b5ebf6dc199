// What algorithms share that mix each sample with another one of the rank's batch: MixUp and CutMix.
//
// At BATCH_START the inputs are mixed, once for the whole batch. The other samples' targets travel with the batch, so
// that microbatches have theirs. Before the loss dense targets are mixed with the same weights; with interpolate_loss,
// before the backward pass, the losses of the two targets are. Composer mixes within each microbatch, with draws of its
// own, so that the size of microbatches changes the run; MixWithinMicrobatches does the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/batch.h"
#include "trainer/core/callback.h"

namespace composer {

class PairMixing : public Algorithm {
 public:
  EventSet events() const final;
  bool Match(Event /*event*/, const State& /*state*/) const final { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) final;
  bool interpolates_loss() const final { return interpolate_loss_; }
  // Mixes at BEFORE_FORWARD, as Composer. Called before the run has the algorithm.
  void MixWithinMicrobatches() { mixing_event_ = Event::kBeforeForward; }

 protected:
  // The weights of a sample's own target and of the other one's, and those other targets, [B, *]; undefined if nothing
  // is left to mix before the loss.
  struct Mixed {
    double own = 1, other = 0;
    at::Tensor targets;
  };

  // `key` is the algorithm's name in YAML, for messages and for the key in Batch::extra.
  PairMixing(const char* key, bool interpolate_loss) : key_(key), interpolate_loss_(interpolate_loss) {}
  // Mixes the inputs of a batch that has samples.
  virtual Mixed MixInputs(Batch& batch) = 0;

 private:
  const char* const key_;
  const bool interpolate_loss_;
  Event mixing_event_ = Event::kBatchStart;
  double own_ = 1, other_ = 0;  // of the batch or microbatch in progress
};

}  // namespace composer
