// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/span_recorder.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

namespace composer {
namespace {

constexpr TraceName kOuter{"outer", "a"};
constexpr TraceName kInner{"inner", "b"};

TEST(SpanRecorder, RecordsSpansInTheOrderOfTheirBeginnings) {
  SpanRecorder recorder(8);
  {
    const TraceSpan outer(&recorder, kOuter);
    const TraceSpan inner(&recorder, kInner);
  }
  recorder.Instant(kInner);
  recorder.Counter(kOuter, 2.5);
  const SpanRecorder::Taken taken = recorder.Take(UnixNanos());
  ASSERT_EQ(taken.records.size(), 4u);
  const SpanRecord &outer = taken.records[0], &inner = taken.records[1];
  EXPECT_EQ(outer.name, &kOuter);
  EXPECT_EQ(inner.name, &kInner);
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_EQ(taken.records[2].kind, SpanRecord::Kind::kInstant);
  EXPECT_EQ(taken.records[2].end_ns, taken.records[2].begin_ns);
  EXPECT_EQ(taken.records[3].value, 2.5);
  EXPECT_EQ(taken.dropped, 0);
  EXPECT_TRUE(recorder.Take(0).records.empty());
}

TEST(SpanRecorder, CutsOpenSpansOffAndIgnoresTheirEnd) {
  SpanRecorder recorder(8);
  const Tracer::Span open = recorder.Begin(kOuter);
  const int64_t now = UnixNanos() + 1000;
  EXPECT_EQ(recorder.Take(now).records[0].end_ns, now);
  const Tracer::Span next = recorder.Begin(kInner);
  recorder.End(open);  // from the previous trace: must not end the span that has its slot now
  EXPECT_EQ(recorder.Take(7).records[0].end_ns, 7);
  recorder.End(next);
  EXPECT_TRUE(recorder.Take(0).records.empty());
}

TEST(SpanRecorder, CountsWhatItHasNoRoomFor) {
  SpanRecorder recorder(2);
  for (int i = 0; i < 5; ++i) const TraceSpan span(&recorder, kOuter);
  const SpanRecorder::Taken taken = recorder.Take(0);
  EXPECT_EQ(taken.records.size(), 2u);
  EXPECT_EQ(taken.dropped, 3);
  {
    const TraceSpan span(&recorder, kOuter);
  }
  EXPECT_EQ(recorder.Take(0).records.size(), 1u);
}

TEST(SpanRecorder, ThreadsKeepApart) {
  constexpr int kThreads = 4, kSpans = 1000;
  SpanRecorder recorder(kThreads * kSpans);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kSpans; ++n) const TraceSpan span(&recorder, kOuter);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const SpanRecorder::Taken taken = recorder.Take(0);
  ASSERT_EQ(taken.records.size(), static_cast<size_t>(kThreads * kSpans));
  std::map<uint32_t, int> by_thread;
  for (const SpanRecord& record : taken.records) {
    ++by_thread[record.thread];
    EXPECT_GE(record.end_ns, record.begin_ns);
  }
  EXPECT_EQ(by_thread.size(), static_cast<size_t>(kThreads));
  for (const auto& [thread, count] : by_thread) EXPECT_EQ(count, kSpans);
}

}  // namespace
}  // namespace composer
