// How fast a run is, and how much of its time was of use. Pure: times are given.
//
// Goodput = useful seconds / seconds since the launch. Useful is the time in which steps were trained (from one step to
// the next, in phase TRAINING), less that of steps which a restart had to do again, at the pace they were done. Start,
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

  // The step that the furthest rank has done, whether it trains, as seen at `now`; once or twice a second.
  void Observe(int64_t step, bool training, absl::Time now);
  // The next observation is of a new generation.
  void EndGeneration();

  double Goodput(absl::Time now) const;  // 0 to 1
  // Over the last 30 seconds of the generation; 0 until two observations with different steps are there.
  double StepsPerSecond(absl::Time now) const;

 private:
  const absl::Time launched_;
  absl::Duration useful_;

  // The current generation. Once a step is counted: where it began and what it took.
  bool begun_ = false;
  int64_t first_step_ = 0;
  int64_t step_ = 0;
  absl::Time marked_ = absl::InfinitePast();  // until when its time is counted; InfinitePast: it does not train
  absl::Duration stepping_;
  std::deque<std::pair<absl::Time, int64_t>> recent_;

  // Of earlier generations: the furthest step, and seconds a step of the one that reached it.
  int64_t furthest_ = 0;
  absl::Duration seconds_a_step_;
};

}  // namespace composer
