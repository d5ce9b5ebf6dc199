// SPDX-License-Identifier: Apache-2.0
#include "base/retry.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace composer {

std::optional<absl::Duration> DelayBeforeRetry(const RetryPolicy& policy, int tries, absl::Duration elapsed,
                                               double uniform, absl::Duration at_least) {
  if (tries >= policy.max_tries) return std::nullopt;
  const absl::Duration ceiling = std::min(policy.cap, policy.base * std::exp2(std::min(tries - 1, 60)));
  const absl::Duration delay = std::max(at_least, ceiling * uniform);
  if (elapsed + delay > policy.budget) return std::nullopt;
  return delay;
}

double UniformRandom() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return std::generate_canonical<double, 53>(generator);
}

}  // namespace composer
