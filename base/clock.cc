// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace composer {

RealClock& RealClock::Get() {
  static RealClock& clock = *new RealClock;
  return clock;
}

absl::Time RealClock::Now() const {
  using Steady = std::chrono::steady_clock;
  static const absl::Time wall_start = absl::Now();
  static const Steady::time_point steady_start = Steady::now();
  return wall_start + absl::FromChrono(Steady::now() - steady_start);
}

void RealClock::SleepFor(absl::Duration duration) { absl::SleepFor(duration); }

absl::Time ManualClock::Now() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void ManualClock::Advance(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  now_ += duration;
}

}  // namespace composer
