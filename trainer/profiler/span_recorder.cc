// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/span_recorder.h"

#include <ATen/record_function.h>
#include <time.h>

#include <algorithm>

namespace composer {

int64_t UnixNanos() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The records are not value-initialized, because that would touch every page.
SpanRecorder::SpanRecorder(size_t capacity) : capacity_(capacity), records_(new SpanRecord[capacity]) {}

SpanRecord* SpanRecorder::Claim(const TraceName& name, SpanRecord::Kind kind, uint64_t* index) {
  *index = next_.fetch_add(1, std::memory_order_relaxed);
  if (*index >= capacity_) return nullptr;
  SpanRecord& record = records_[*index];
  record.name = &name;
  record.kind = kind;
  record.value = 0;
  record.thread = static_cast<uint32_t>(at::RecordFunction::currentThreadId());
  record.begin_ns = UnixNanos();
  record.end_ns = kind == SpanRecord::Kind::kSpan ? 0 : record.begin_ns;
  return &record;
}

// A Span encodes its generation and its index + 1; the generation identifies spans begun before a Reset.
Tracer::Span SpanRecorder::Begin(const TraceName& name) {
  uint64_t index;
  const uint64_t generation = generation_.load(std::memory_order_relaxed);
  return Claim(name, SpanRecord::Kind::kSpan, &index) == nullptr ? 0 : generation << 32 | (index + 1);
}

void SpanRecorder::End(Span span) {
  if (span == 0 || span >> 32 != generation_.load(std::memory_order_relaxed)) return;
  records_[(span & 0xffffffff) - 1].end_ns = UnixNanos();
}

void SpanRecorder::Instant(const TraceName& name) {
  uint64_t index;
  Claim(name, SpanRecord::Kind::kInstant, &index);
}

void SpanRecorder::Counter(const TraceName& name, double value) {
  uint64_t index;
  if (SpanRecord* record = Claim(name, SpanRecord::Kind::kCounter, &index)) record->value = value;
}

void SpanRecorder::Reset() {
  generation_.fetch_add(1, std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
}

SpanRecorder::Taken SpanRecorder::Take(int64_t now_ns) {
  Taken taken;
  const size_t claimed = next_.load(std::memory_order_acquire);
  const size_t count = std::min<size_t>(claimed, capacity_);
  taken.records.assign(records_.get(), records_.get() + count);
  taken.dropped = static_cast<int64_t>(claimed - count);
  for (SpanRecord& record : taken.records) {
    if (record.end_ns == 0) record.end_ns = now_ns;
  }
  Reset();
  return taken;
}

}  // namespace composer
