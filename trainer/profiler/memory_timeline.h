// Shows memory over time as one HTML page that needs no network: a curve for each kind of memory, above bands that show
// what the step was doing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/profiler/timeline.h"

namespace composer {

struct MemoryCurve {
  std::string name;
  struct Point {
    int64_t time_ns;
    int64_t bytes;  // until the next point
  };
  std::vector<Point> points;  // ordered by time
};

// Returns one curve per device for tensors, starting from memory_at_begin (0 if not known; then earlier allocations are
// not included), and one for the process's resident memory where it was sampled. A curve has at most `max_points`; of
// each stretch that is drawn as one point, the largest is kept.
std::vector<MemoryCurve> MemoryCurves(const Window& window, size_t max_points = 4000);

// Returns the page, or "" when there are no curves.
std::string MemoryPage(const Window& window, const std::string& title);

}  // namespace composer
