// SPDX-License-Identifier: Apache-2.0
#include "trainer/memory/allocation_growth.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace composer {
namespace {

// A Step is an allocation, the free of an earlier one, or a spike: memory that was allocated and freed at once.
struct Step {
  enum class Kind { kAlloc, kFree, kSpike };
  Kind kind = Kind::kAlloc;
  size_t number = 0;    // index of the allocation or spike
  int stack = 0;        // of operations
  bool counts = false;  // counts in the peak
};
struct Timeline {
  std::vector<Step> steps;
  std::vector<int64_t> bytes;  // by number
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
      timeline.steps.push_back({Step::Kind::kAlloc, timeline.bytes.size(), event.stack, counts});
      timeline.bytes.push_back(event.bytes);
    } else if (const auto it = live.find(event.address); it != live.end()) {
      timeline.steps.push_back({Step::Kind::kFree, it->second, event.stack, counts});
      live.erase(it);
    }
  }
  return timeline;
}

// Joins the last ones of `steps` into one step if they are
//   allocation, its free                       a spike
//   allocation, spike, its free                a higher one, when the operation is the same
//   spike, spike                               the higher of both, when the operation is the same
// Heights are in bytes, under the number of the first.
bool JoinLast(std::vector<Step>& steps, std::vector<int64_t>& bytes) {
  const size_t n = steps.size();
  if (n < 2) return false;
  const Step last = steps[n - 1], before = steps[n - 2];
  if (last.kind == Step::Kind::kFree && before.kind == Step::Kind::kAlloc && before.number == last.number) {
    steps.pop_back();
    steps.back().kind = Step::Kind::kSpike;
    return true;
  }
  if (before.kind != Step::Kind::kSpike) return false;
  if (last.kind == Step::Kind::kSpike && last.stack == before.stack) {
    bytes[before.number] = std::max(bytes[before.number], bytes[last.number]);
    steps.pop_back();
    return true;
  }
  if (last.kind != Step::Kind::kFree || n < 3) return false;
  const Step first = steps[n - 3];
  if (first.kind != Step::Kind::kAlloc || first.number != last.number || first.stack != before.stack) return false;
  bytes[first.number] += bytes[before.number];
  steps.resize(n - 2);
  steps.back().kind = Step::Kind::kSpike;
  return true;
}

// Joins what an operation allocated and freed any number of times in a row (a kernel's loop over samples) into one
// spike.
Timeline WithoutLoops(const Timeline& timeline) {
  Timeline joined;
  std::vector<int64_t> bytes = timeline.bytes;
  for (const Step& step : timeline.steps) {
    joined.steps.push_back(step);
    while (JoinLast(joined.steps, bytes)) {
    }
  }
  std::vector<size_t> numbers(bytes.size());
  for (Step& step : joined.steps) {
    if (step.kind != Step::Kind::kFree) {
      numbers[step.number] = joined.bytes.size();
      joined.bytes.push_back(bytes[step.number]);
    }
    step.number = numbers[step.number];
  }
  return joined;
}

int64_t Peak(const std::vector<Step>& steps, const std::vector<int64_t>& bytes) {
  int64_t now = 0, peak = 0;
  for (const Step& step : steps) {
    const int64_t own = bytes[step.number];
    if (step.kind == Step::Kind::kFree) now -= own;
    if (step.kind != Step::Kind::kFree && step.counts) peak = std::max(peak, now + own);
    if (step.kind == Step::Kind::kAlloc) now += own;
    if (step.counts) peak = std::max(peak, now);
  }
  return peak;
}

bool Same(const Timeline& a, const Timeline& b) {
  return std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), [](const Step& x, const Step& y) {
    return x.kind == y.kind && x.number == y.number && x.counts == y.counts;
  });
}

}  // namespace

GrownPeak PeakWithRows(const RecordedRun& small, const RecordedRun& large, int64_t rows, bool gpu) {
  Timeline a = TimelineOf(small, gpu), b = TimelineOf(large, gpu);
  const int64_t span = large.rows - small.rows;
  const auto grown = [&](int64_t at_small, int64_t at_large) {
    if (span == 0) return at_large;
    const double slope = static_cast<double>(at_large - at_small) / static_cast<double>(span);
    const double at_rows = static_cast<double>(at_small) + slope * static_cast<double>(rows - small.rows);
    return std::max<int64_t>(0, std::llround(at_rows));
  };
  if (!Same(a, b)) {
    a = WithoutLoops(a);
    b = WithoutLoops(b);
  }
  if (!Same(a, b)) return {grown(Peak(a.steps, a.bytes), Peak(b.steps, b.bytes)), false};
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < a.bytes.size(); ++i) bytes.push_back(grown(a.bytes[i], b.bytes[i]));
  return {Peak(a.steps, bytes), true};
}

int64_t LiveAtEnd(const RecordedRun& run, bool gpu) {
  const Timeline timeline = TimelineOf(run, gpu);
  int64_t live = 0;
  for (const Step& step : timeline.steps) {
    const int64_t own = timeline.bytes[step.number];
    live += step.kind == Step::Kind::kAlloc ? own : -own;
  }
  return live;
}

}  // namespace composer
