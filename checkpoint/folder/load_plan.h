// The load plan says what to read of a checkpoint and where its bytes go. Pure. No torch.
//
// Bytes are read in chunks, since a checksum covers a chunk (kChunkBytes): if only a part of a box is wanted, only the
// chunks with bytes of that part are read. Chunks near each other are read at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/reshard.h"

namespace composer {

// A WantedBox is a box of a tensor that is wanted in memory.
struct WantedBox {
  size_t tensor = 0;  // index into Manifest::tensors
  BoxView extent;
  absl::Span<const int64_t> strides;  // bytes
  int64_t element_bytes = 0;
};

struct PlannedCopy {
  BoxCopy bytes;
  size_t wanted = 0;  // index of the wanted box
};

struct ChunkRead {
  size_t tensor = 0;  // index into Manifest::tensors
  int file = 0;
  int64_t begin = 0;  // bytes [begin, end) of the file
  int64_t end = 0;
  int64_t position = 0;  // position of its first byte in its box
  uint64_t xxh3 = 0;
  size_t first_copy = 0;  // [first_copy, end_copy) of LoadPlan::copies are those of its box
  size_t end_copy = 0;
};

struct LoadPlan {
  std::vector<PlannedCopy> copies;
  std::vector<ChunkRead> chunks;  // in order of file and place
};

LoadPlan PlanLoad(const Manifest& manifest, absl::Span<const WantedBox> wanted);

// Plans to read all chunks of the checkpoint and to copy nothing.
LoadPlan PlanVerify(const Manifest& manifest);

// One request reads chunks [first, end) of the plan. They are consecutive, without overlap, in one file.
struct ChunkRun {
  size_t first = 0;
  size_t end = 0;
  // If true, the bytes belong in one piece of a wanted box, in the order in which they are stored, and are read
  // straight to copies[chunks[first].first_copy], without a buffer.
  bool direct = false;

  bool operator==(const ChunkRun&) const = default;
};

struct RunLimits {
  int64_t buffer_bytes = int64_t{8} << 20;   // of a run that needs a buffer; one chunk is always allowed
  int64_t gap_bytes = int64_t{64} << 10;     // between two chunks of a run, read needlessly
  int64_t direct_bytes = int64_t{32} << 20;  // of a direct run
  int64_t direct_least = int64_t{4} << 20;   // fewer bytes of a box are cheaper in a buffer with their neighbours
};
std::vector<ChunkRun> RunsOf(const LoadPlan& plan, const RunLimits& limits = {});

inline absl::Span<const ChunkRead> ChunksOf(const LoadPlan& plan, const ChunkRun& run) {
  return {plan.chunks.data() + run.first, run.end - run.first};
}

}  // namespace composer
