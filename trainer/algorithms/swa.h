// Stochastic weight averaging: from swa_start on, after each update_interval, the weights are added to their mean,
//
//   w_swa <- w_swa + (w - w_swa) / (n + 1),   n = 0, 1, …
//
// and at swa_end the mean takes the place of the weights; training goes on from there. Times are read after a batch or,
// when update_interval is in epochs, after an epoch. Buffers are those of the last update. With schedule_swa_lr the
// learning rate goes, over anneal_steps updates, from the schedule's to swa_lr, which is by default the schedule's at
// swa_start, and from swa_end on is the schedule's again.
//
// Each rank averages the pieces that it holds, and checkpoints hold the mean as `algorithms/SWA/…`, so that runs resume
// bit for bit and with other strategies. Source: Izmailov et al. 2018, arXiv:1803.05407; mosaicml
// composer/algorithms/swa/swa.py, whose runs cannot be resumed on several GPUs, whose schedule overwrites the annealed
// rates after a batch, and which ignores swa_lr.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"
#include "trainer/core/callback.h"
#include "trainer/core/model.h"

namespace composer {

struct SwaOptions {
  Time swa_start = Time::Duration(0.7);    // dur or ep
  Time swa_end = Time::Duration(0.97);     // the same unit, after swa_start
  Time update_interval = Time::Epochs(1);  // ba or ep
  bool schedule_swa_lr = false;
  bool anneal_cosine = false;    // anneal_strategy: cos instead of linear
  int64_t anneal_steps = 10;     // >= 1
  std::optional<double> swa_lr;  // >= 0
};

// Returns kInvalidArgument that names the field, its value and what is allowed.
absl::Status Validate(const SwaOptions& options);

// Returns how far the learning rate has gone after that many updates: 0 to 1.
double SwaAnnealing(const SwaOptions& options, int64_t updates);

class Swa final : public Algorithm {
 public:
  explicit Swa(const SwaOptions& options) : options_(options), progress_(std::make_shared<Progress>()) {}
  std::string name() const override { return "SWA"; }
  EventSet events() const override { return {Event::kInit, update_event()}; }
  bool Match(Event event, const State& state) const override;
  // Returns kInvalidArgument at INIT when the run has another SWA.
  absl::Status Apply(Event event, State& state, Logger& logger) override;

  std::vector<KeptTensor> tensors() const override;
  absl::Status PrepareLoad(absl::string_view json) override;
  std::string SaveState() const override;

  // What the algorithm's schedule sees.
  struct Progress {
    int64_t averaged = 0, steps = 0;  // updates made, times they were considered
    bool completed = false;
    std::optional<double> start_factor;  // of the schedule, at the first update
  };

 private:
  struct Kept {
    std::string name;
    at::Tensor live, mean;
    bool is_param;
  };

  Event update_event() const;
  void Begin();
  void Update();
  void Replace();

  const SwaOptions options_;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<Model> model_;
  std::vector<Kept> kept_;  // each tensor once
};

}  // namespace composer
