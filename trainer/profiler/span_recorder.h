// The Tracer that writes spans down: two clock reads and one record of 40 bytes a span, into memory that was set aside
// before. When that is full, further spans are counted and dropped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/tracer.h"

namespace composer {

// Nanoseconds since 1970, the base of Kineto's times, too.
int64_t UnixNanos();

struct SpanRecord {
  enum class Kind : uint8_t { kSpan, kInstant, kCounter };
  const TraceName* name;
  int64_t begin_ns;
  int64_t end_ns;   // of an instant or counter: begin_ns; 0: still open
  double value;     // of a counter
  uint32_t thread;  // at::RecordFunction::currentThreadId(), the threads of Kineto's events
  Kind kind;
};

// Threads: Begin, End, Instant and Counter from any; Reset and Take from one, while no other is between Begin and End.
class SpanRecorder final : public Tracer {
 public:
  // Address space for `capacity` records; pages are touched as they fill.
  explicit SpanRecorder(size_t capacity = size_t{1} << 19);

  Span Begin(const TraceName& name) override;
  void End(Span span) override;
  void Instant(const TraceName& name) override;
  void Counter(const TraceName& name, double value) override;

  // Forgets everything; spans still open then are never recorded.
  void Reset();
  struct Taken {
    std::vector<SpanRecord> records;  // in the order of their beginnings, thread by thread
    int64_t dropped = 0;
  };
  // What was recorded since the last Reset, open spans ended at now_ns; then Reset.
  Taken Take(int64_t now_ns);

 private:
  SpanRecord* Claim(const TraceName& name, SpanRecord::Kind kind, uint64_t* index);

  const size_t capacity_;
  const std::unique_ptr<SpanRecord[]> records_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint32_t> generation_{1};
};

}  // namespace composer
