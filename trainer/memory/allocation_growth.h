// How much memory a run takes with larger batches, told from two recordings of it with small ones.
//
// Both recordings are the same allocations and frees in the same order; only sizes differ. Each allocation's size is taken as
// a line through its two sizes,
//
//   bytes_i(rows) = bytes_i(r0) + (bytes_i(r1) - bytes_i(r0)) (rows - r0) / (r1 - r0)
//
// which is exact for parameters (no slope) and for what is in proportion to rows, whatever kernels took it, and the recording
// is played again with these: so the peak may be at another place than it is with few rows. Where the two differ only in how
// often an operation takes memory and gives it back (a kernel's loop over samples), each such loop counts as the most that
// it had at once. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/memory/allocation_recorder.h"

namespace composer {

// What one run did. Frees of what was allocated before it began are passed over.
struct RecordedRun {
  int64_t rows = 0;  // of its batches
  AllocationHistory history;
  size_t first_event = 0;  // the peak is looked for from here on
};

struct GrownPeak {
  int64_t bytes = 0;
  // false: the runs did not do the same allocations, so it is a line through their two peaks.
  bool by_allocation = true;
};

// Of the tensors on the CPU (gpu: on the GPU, as its allocator rounds them). small.rows < large.rows, or the same run
// twice when the rows are those of the recording.
GrownPeak PeakWithRows(const RecordedRun& small, const RecordedRun& large, int64_t rows, bool gpu);

// What the run allocated and did not free.
int64_t LiveAtEnd(const RecordedRun& run, bool gpu);

}  // namespace composer
