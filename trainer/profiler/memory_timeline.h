// Memory over time as one HTML page that needs no network: a curve for each kind of memory over bands that say what the
// step was doing.
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
    int64_t bytes;  // from here to the next point
  };
  std::vector<Point> points;  // by time
};

// One curve a device: tensors, from memory_at_begin (0 if not known: then what was allocated before is not in it) on;
// and the process's resident memory where it was sampled. At most `max_points` a curve; of each stretch that is drawn as
// one point the largest is kept.
std::vector<MemoryCurve> MemoryCurves(const Window& window, size_t max_points = 4000);

// The page; "" when there are no curves.
std::string MemoryPage(const Window& window, const std::string& title);

}  // namespace composer
