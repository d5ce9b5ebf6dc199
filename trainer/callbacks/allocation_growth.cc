// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/allocation_growth.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace composer {
namespace {

// An allocation, or the free of an earlier one.
struct Step {
  bool is_free = false;
  size_t allocation = 0;  // its number
  bool counts = false;    // in the peak
};
struct Timeline {
  std::vector<Step> steps;
  std::vector<int64_t> bytes;  // by allocation
};

Timeline TimelineOf(const RecordedRun& run, bool gpu) {
  Timeline timeline;
  absl::flat_hash_map<uint64_t, size_t> live;
  for (size_t i = 0; i < run.history.events.size(); ++i) {
    const AllocationEvent& event = run.history.events[i];
    if ((event.device >= 0) != gpu) continue;
    const bool counts = i >= run.first_event;
    if (event.kind == AllocationEvent::Kind::kAlloc) {
      live[event.address] = timeline.bytes.size();
      timeline.steps.push_back({false, timeline.bytes.size(), counts});
      timeline.bytes.push_back(event.bytes);
    } else if (const auto it = live.find(event.address); it != live.end()) {
      timeline.steps.push_back({true, it->second, counts});
      live.erase(it);
    }
  }
  return timeline;
}

int64_t Peak(const std::vector<Step>& steps, const std::vector<int64_t>& bytes) {
  int64_t now = 0, peak = 0;
  for (const Step& step : steps) {
    now += step.is_free ? -bytes[step.allocation] : bytes[step.allocation];
    if (step.counts) peak = std::max(peak, now);
  }
  return peak;
}

bool Same(const Timeline& a, const Timeline& b) {
  return std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), [](const Step& x, const Step& y) {
    return x.is_free == y.is_free && x.allocation == y.allocation && x.counts == y.counts;
  });
}

}  // namespace

GrownPeak PeakWithRows(const RecordedRun& small, const RecordedRun& large, int64_t rows, bool gpu) {
  const Timeline a = TimelineOf(small, gpu), b = TimelineOf(large, gpu);
  const int64_t span = large.rows - small.rows;
  const auto grown = [&](int64_t at_small, int64_t at_large) {
    if (span == 0) return at_large;
    const double slope = static_cast<double>(at_large - at_small) / static_cast<double>(span);
    const double at_rows = static_cast<double>(at_small) + slope * static_cast<double>(rows - small.rows);
    return std::max<int64_t>(0, std::llround(at_rows));
  };
  if (!Same(a, b)) return {grown(Peak(a.steps, a.bytes), Peak(b.steps, b.bytes)), false};
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < a.bytes.size(); ++i) bytes.push_back(grown(a.bytes[i], b.bytes[i]));
  return {Peak(a.steps, bytes), true};
}

}  // namespace composer
