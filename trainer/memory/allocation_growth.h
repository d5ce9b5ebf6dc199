// This estimates how much memory a run takes with larger batches, from two recordings of it with small ones.
//
// Both recordings have the same allocations and frees in the same order; only sizes differ. Each allocation's size is
// taken as a line through its two sizes,
//
//   bytes_i(rows) = bytes_i(r0) + (bytes_i(r1) - bytes_i(r0)) (rows - r0) / (r1 - r0)
//
// which is exact for parameters (no slope) and for what is proportional to rows, whatever kernels allocated it. The
// recording is replayed with these sizes, so the peak may be at another place than with few rows. Where the two differ
// only in how often an operation allocates and frees memory (a kernel's loop over samples), each such loop counts as
// the most that it had at once. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/memory/allocation_recorder.h"

namespace composer {

// A RecordedRun is the record of one run. Frees of what was allocated before it began are ignored.
struct RecordedRun {
  int64_t rows = 0;  // of its batches
  AllocationHistory history;
  size_t first_event = 0;  // the peak is searched for from here on
};

struct GrownPeak {
  int64_t bytes = 0;
  // If false, the runs did not make the same allocations, and `bytes` is on a line through their two peaks.
  bool by_allocation = true;
};

// Returns the peak of the tensors on the CPU (gpu: on the GPU, as its allocator rounds them). Requires small.rows <
// large.rows, or the same run twice when `rows` is that of the recording.
GrownPeak PeakWithRows(const RecordedRun& small, const RecordedRun& large, int64_t rows, bool gpu);

// Returns the bytes that the run allocated and did not free.
int64_t LiveAtEnd(const RecordedRun& run, bool gpu);

}  // namespace composer
