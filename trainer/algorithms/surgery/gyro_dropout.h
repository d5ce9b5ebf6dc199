// GyroDropout trains a fixed number of subnetworks, each for many steps, in place of dropout's new one in each: of
// sigma masks that are drawn once, tau are in use at a time, each for an equal run of a microbatch's samples:
//
//   y = x m / (1 - p), m the mask of the sample, 0 with probability p
//
// The tau are chosen anew, with replacement, every max(1, floor(N / sigma)) tau of the run's N batches. What is drawn
// is a function of seed, rank, layer and batch, and nothing is saved: a resumed run has the masks of one that was not
// stopped (Composer's starts with others). Dropout layers [B, features] are replaced; the samples of a microbatch must
// be a multiple of tau, and max_duration in batches or epochs.
//
// Source: Lee et al. 2022, MLSys; mosaicml composer/algorithms/gyro_dropout, which counts forward passes and reads a
// max_duration in batches as so many epochs (ReadDurationAsEpochs does so, too).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainer/core/callback.h"
#include "trainer/layers/layer.h"

namespace composer {

struct GyroDropoutOptions {
  double p = 0.5;       // 0 up to below 1
  int64_t sigma = 256;  // masks, >= 1
  int64_t tau = 16;     // in use at a time, >= 1
};

// Returns the number of batches after which masks are chosen anew, for a run of this many.
int64_t GyroPeriod(const GyroDropoutOptions& options, int64_t batches);
// Returns x [B, F] with its samples masked by masks [tau, F] in equal runs, and divided by 1 - p. Throws
// c10::ValueError when B is not a multiple of tau.
at::Tensor GyroMask(const at::Tensor& x, const at::Tensor& masks, double p);

class GyroDropoutLayer final : public torch::nn::Module, public Layer {
 public:
  explicit GyroDropoutLayer(const GyroDropoutOptions& options) : options_(options) {}
  // Masks in training.
  at::Tensor forward(const at::Tensor& x) override;
  // Sets what the masks, and the choice of those in use, are drawn from.
  void SetSeeds(uint64_t masks, uint64_t choice);

 private:
  GyroDropoutOptions options_;
  uint64_t masks_seed_ = 0, choice_seed_ = 0;
  at::Tensor chosen_;  // [tau, F]; undefined: not drawn yet
};

class GyroDropout final : public Algorithm {
 public:
  explicit GyroDropout(const GyroDropoutOptions& options = {}) : options_(options) {}
  std::string name() const override { return "GyroDropout"; }
  // Before the batch is there, since SelectiveBackprop runs the model as soon as it is.
  EventSet events() const override { return {Event::kInit, Event::kBeforeDataloader}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;
  // Returns kInvalidArgument at INIT when max_duration has another unit.
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  bool required_on_load() const override { return true; }
  // Reads max_duration as Composer. Called before the run has the algorithm.
  void ReadDurationAsEpochs() { reads_as_epochs_ = true; }

 private:
  GyroDropoutOptions options_;
  bool reads_as_epochs_ = false;
};

}  // namespace composer
