// When to retry: exponential backoff with full jitter within a time budget. Pure, but for UniformRandom. Thread-safe.
// Source: Brooker 2015, "Exponential Backoff And Jitter", AWS Architecture Blog: uniform in [0, min(cap, base * 2^n)].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>

#include "absl/time/time.h"

namespace composer {

struct RetryPolicy {
  absl::Duration base = absl::Milliseconds(100);
  absl::Duration cap = absl::Seconds(20);
  absl::Duration budget = absl::Minutes(3);  // from the first try to the start of the last
  int max_tries = 12;
};

// For a service of the job that restarts. All ranks wait for it, so it is asked often; the caller bounds the time.
inline constexpr RetryPolicy kWhileAway = {.base = absl::Milliseconds(100),
                                           .cap = absl::Milliseconds(200),
                                           .budget = absl::InfiniteDuration(),
                                           .max_tries = std::numeric_limits<int>::max()};

// Returns how long to wait after `tries` (>= 1) failures, `elapsed` after the first one began; nullopt: give up.
// `uniform` is a random number in [0, 1). `at_least` is what the server asked for (Retry-After), zero if nothing; it
// counts against the budget.
std::optional<absl::Duration> DelayBeforeRetry(const RetryPolicy& policy, int tries, absl::Duration elapsed,
                                               double uniform, absl::Duration at_least = absl::ZeroDuration());

// Returns a random number in [0, 1).
double UniformRandom();

}  // namespace composer
