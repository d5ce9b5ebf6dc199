// Measures how fast a run is and how much of its time was useful. Pure: the caller passes the times.
//
// Goodput = useful seconds / seconds since the launch. Useful is the time in which steps were trained (from one step to
// the next, in phase TRAINING), minus the time of steps that a restart had to repeat, at the pace they had. Start-up,
// rendezvous, loading, evaluation, waiting for a checkpoint and recovery are not useful.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/time/time.h"

namespace composer {

class GoodputMeter {
 public:
  explicit GoodputMeter(absl::Time launched) : launched_(launched) {}

  // Records the furthest rank's last step and whether it trains, as seen at `now`. Should be called once or twice a
  // second.
  void Observe(int64_t step, bool training, absl::Time now);
  // Ends a generation: the next observation belongs to a new one.
  void EndGeneration();

  double Goodput(absl::Time now) const;  // 0 to 1
  // Returns the rate over the last 30 seconds of the generation; 0 until there are two observations with different
  // steps.
  double StepsPerSecond(absl::Time now) const;

 private:
  const absl::Time launched_;
  absl::Duration useful_;

  // The current generation: where it began and what it took, valid once `begun_`.
  bool begun_ = false;
  int64_t first_step_ = 0;
  int64_t step_ = 0;
  absl::Time marked_ = absl::InfinitePast();  // its time is counted up to here; InfinitePast if it is not training
  absl::Duration stepping_;
  std::deque<std::pair<absl::Time, int64_t>> recent_;

  // The furthest step of earlier generations, and the seconds per step of the generation that reached it.
  int64_t furthest_ = 0;
  absl::Duration seconds_a_step_;
};

}  // namespace composer
