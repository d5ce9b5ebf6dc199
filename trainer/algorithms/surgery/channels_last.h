// ChannelsLast lays the weights of two-dimensional convolutions, and the optimizer's state of them, out with the
// channels innermost, as fast convolutions on GPUs and some CPUs want them. No value changes; sums may be made in
// another order. Checkpoints are the same with and without it. Sharded parameters are flat pieces, so it does not go
// with parallelism_config.fsdp, which is an error at INIT. GroupNorms behind frozen layers get their inputs plainly
// laid out, since LibTorch's own backward pass fails there; one that no slot holds is an error beside
// layer_freezing.
//
// Source: mosaicml composer/algorithms/channels_last/channels_last.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/callback.h"
#include "trainer/core/model.h"

namespace composer {

// Changes the memory of the model's parameters [*, *, *, *] in place. Returns how many there are.
int64_t ApplyChannelsLast(Model& model);

class ChannelsLast final : public Algorithm {
 public:
  std::string name() const override { return "ChannelsLast"; }
  // At FIT_START, after the ranks have shared what they start with.
  EventSet events() const override { return {Event::kInit, Event::kFitStart}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) override;

 private:
  bool protects_ = false;  // GroupNorms are wrapped
};

}  // namespace composer
