// The Tracer that records spans: two clock reads and one record of 40 bytes per span, into preallocated memory. When
// that is full, further spans are counted and dropped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/tracer.h"

namespace composer {

// Returns nanoseconds since 1970, which is also the base of Kineto's times.
int64_t UnixNanos();

struct SpanRecord {
  enum class Kind : uint8_t { kSpan, kInstant, kCounter };
  const TraceName* name;
  int64_t begin_ns;
  int64_t end_ns;   // begin_ns for an instant or counter; 0 means still open
  double value;     // of a counter
  uint32_t thread;  // at::RecordFunction::currentThreadId(), the threads of Kineto's events
  Kind kind;
};

// Begin, End, Instant and Counter are thread-safe. Reset and Take must be called from one thread, while no other is
// between Begin and End.
class SpanRecorder final : public Tracer {
 public:
  // Reserves address space for `capacity` records; pages are touched as they fill.
  explicit SpanRecorder(size_t capacity = size_t{1} << 19);

  Span Begin(const TraceName& name) override;
  void End(Span span) override;
  void Instant(const TraceName& name) override;
  void Counter(const TraceName& name, double value) override;

  // Forgets everything. Spans still open then are never recorded.
  void Reset();
  struct Taken {
    std::vector<SpanRecord> records;  // ordered by beginning, thread by thread
    int64_t dropped = 0;
  };
  // Returns what was recorded since the last Reset, with open spans ended at now_ns, and resets.
  Taken Take(int64_t now_ns);

 private:
  SpanRecord* Claim(const TraceName& name, SpanRecord::Kind kind, uint64_t* index);

  const size_t capacity_;
  const std::unique_ptr<SpanRecord[]> records_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint32_t> generation_{1};
};

}  // namespace composer
