// The data recorded in one window, from which the trace file, the verdict and the memory page are made. Times are
// nanoseconds since 1970 by this machine's clock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainer/profiler/span_recorder.h"

namespace composer {

// One execution of a LibTorch operator on the host, or of a kernel or copy on a device.
struct OpEvent {
  std::string name;
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  uint64_t thread = 0;    // of the host, as SpanRecord::thread
  int device = -1;        // -1 means the host; else the index of the GPU
  int64_t stream = 0;     // of the device
  uint64_t flops = 0;     // 0 means unknown
  std::string shapes;     // JSON array of the inputs' sizes; "" when not recorded
  uint64_t id = 0;        // of the operator
  uint64_t launcher = 0;  // of a kernel: the id of the operator that launched it; 0 means unknown
};

// Tensor memory that was allocated or, when negative, freed.
struct MemoryEvent {
  int64_t time_ns = 0;
  int64_t bytes = 0;
  int device = -1;  // as OpEvent::device
};

// A reading of the machine: several values of one graph.
struct CounterSample {
  int64_t time_ns = 0;
  std::string name;
  std::vector<std::pair<std::string, double>> values;
};

// Extends from the event BEFORE_DATALOADER to BATCH_END.
struct BatchEvent {
  int64_t epoch = 0, batch = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

struct Window {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::vector<BatchEvent> batches;
  uint32_t training_thread = 0;
  std::vector<SpanRecord> spans;
  int64_t dropped_spans = 0;
  std::vector<OpEvent> ops;
  std::vector<MemoryEvent> memory;
  std::vector<std::pair<int, int64_t>> memory_at_begin;  // by device: bytes in tensors when the window began, if known
  std::vector<CounterSample> counters;
};

}  // namespace composer
