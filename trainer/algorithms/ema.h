// Exponential moving average of the weights: after each update_interval
//
//   w_ema <- s w_ema + (1 - s) w,   s = 2^(-update_interval / half_life)
//
// for trainable parameters and buffers. It begins at ema_start with the current weights; before, there is no second
// copy of them. Evaluation and prediction use the average; training never does. In checkpoints the average is the model
// (`model/…`), and the weights being trained are saved as `algorithms/EMA/…` beside it, so that a run resumes bit for
// bit. That holds for every checkpoint of the run: at an interval, in memory, by hand, and weights only (which has the
// average alone). The average of a buffer that is not floating point is its current value.
//
// Each rank averages the pieces it holds, in place, element by element. This needs no temporary memory, no collective,
// and 1/N of the memory with N shards. The result does not depend on how parameters are sharded.
//
// While a parameter is frozen (requires_grad is false), its average stays as it is.
//
// Source: mosaicml composer/algorithms/ema/ema.py. Fixed here: in mosaicml's, checkpoints saved by hand hold the
// training weights; an average counted in epochs takes the average itself as weights when a checkpoint was saved at the
// epoch's last batch; counters (num_batches_tracked) are averaged and truncated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/algorithms/ema_options.h"
#include "trainer/core/callback.h"
#include "trainer/core/model.h"

namespace composer {

class Ema final : public Algorithm {
 public:
  explicit Ema(const EmaOptions& options) : options_(options) {}

  std::string name() const override { return "EMA"; }
  EventSet events() const override;
  bool Match(Event event, const State& state) const override;
  // Returns kInvalidArgument at INIT when the run has another EMA.
  absl::Status Apply(Event event, State& state, Logger& logger) override;

  std::vector<KeptTensor> tensors() const override;
  absl::Status PrepareLoad(absl::string_view json) override;
  void UseForInference(bool on) override;
  // Returns "" before the average begins.
  std::string SaveState() const override;

  bool has_started() const { return !kept_.empty(); }

 private:
  // A tensor of the model. `average` is its average or, while the model uses the average, the weights being trained.
  struct Kept {
    std::string name;
    at::Tensor live, average;
    bool is_param;
  };

  Event update_event() const;
  void Begin();
  void Stop();
  void Update();
  bool IsFrozen(size_t index) const { return is_trained_[index] != 0 && !live_[index].requires_grad(); }

  const EmaOptions options_;
  std::shared_ptr<Model> model_;
  std::vector<at::Tensor> trained_;          // the parameters that required a gradient at INIT
  std::vector<Kept> kept_;                   // all names; a shared parameter has several
  std::vector<at::Tensor> live_, averages_;  // floating-point tensors, each once
  std::vector<char> is_trained_;             // of live_: a parameter, which may be frozen for a time
  std::vector<at::Tensor> counts_, copies_;  // the others
  bool in_use_ = false;                      // the model holds the averages
};

}  // namespace composer
