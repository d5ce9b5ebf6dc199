// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/operator_clip.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

SpanRecord Span(int64_t begin, int64_t end, uint32_t thread = 1) {
  return {&kForwardSpan, begin, end, 0, thread, SpanRecord::Kind::kSpan};
}

struct Times {
  int64_t begin, end;
  bool operator==(const Times&) const = default;
};

Times Clipped(const std::vector<SpanRecord>& spans, Times times, int device = -1) {
  OpEvent op;
  op.begin_ns = times.begin;
  op.duration_ns = times.end - times.begin;
  op.thread = 1;
  op.device = device;
  std::vector<OpEvent> ops = {op};
  ClipToSpans(spans, ops);
  return {ops[0].begin_ns, ops[0].begin_ns + ops[0].duration_ns};
}

TEST(ClipToSpans, AnOperatorKeepsItsLongerSide) {
  const std::vector<SpanRecord> spans = {Span(1000, 2000), Span(1200, 1500)};
  struct Row {
    Times op, kept;
  };
  const Row rows[] = {
      {{100, 1034}, {100, 1000}},    // ended before the span, but by the other clock a little after its beginning
      {{966, 1100}, {1000, 1100}},   // began with it
      {{1600, 2034}, {1600, 2000}},  // ended with it
      {{1966, 3000}, {2000, 3000}},  // came after it
      {{1166, 1534}, {1166, 1534}},  // contains the inner span
      {{1190, 1490}, {1200, 1490}},  // within the inner span
      {{1100, 1210}, {1100, 1200}},  // within the outer span
      {{980, 2020}, {980, 2020}},    // contains both
      {{980, 1400}, {1200, 1400}},   // protrudes from both
      {{1300, 1400}, {1300, 1400}}, {{0, 1000}, {0, 1000}},       {{2000, 2500}, {2000, 2500}},
      {{1000, 2000}, {1000, 2000}}, {{1000, 1000}, {1000, 1000}},
  };
  for (const Row& row : rows) {
    const Times kept = Clipped(spans, row.op);
    EXPECT_EQ(kept, row.kept) << row.op.begin << " " << row.op.end << ": " << kept.begin << " " << kept.end;
  }
}

TEST(ClipToSpans, OtherThreadsDevicesAndInstantsCutNothing) {
  EXPECT_EQ(Clipped({Span(1000, 2000, /*thread=*/2)}, {100, 1034}), (Times{100, 1034}));
  EXPECT_EQ(Clipped({Span(1000, 2000)}, {100, 1034}, /*device=*/0), (Times{100, 1034}));
  SpanRecord instant = Span(1000, 1000);
  instant.kind = SpanRecord::Kind::kInstant;
  EXPECT_EQ(Clipped({instant}, {100, 1034}), (Times{100, 1034}));
  EXPECT_EQ(Clipped({}, {100, 1034}), (Times{100, 1034}));
}

}  // namespace
}  // namespace composer
