// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/load_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace composer {
namespace {

bool Touches(const PlannedCopy& copy, int64_t begin, int64_t end) {
  return VisitRuns(copy.bytes, begin, end, [](int64_t, int64_t, int64_t) { return true; });
}

// Adds the box's chunks that copies [first_copy, end) need; all chunks if `all`.
void AddChunks(const Box& box, size_t tensor, size_t first_copy, bool all, LoadPlan* plan) {
  const auto first = plan->copies.begin() + static_cast<int64_t>(first_copy);
  for (size_t i = 0; i < box.xxh3.size(); ++i) {
    const int64_t position = static_cast<int64_t>(i) * kChunkBytes;
    const int64_t begin = box.begin + position, end = std::min(begin + kChunkBytes, box.end);
    const bool needed = all || std::any_of(first, plan->copies.end(), [&](const PlannedCopy& copy) {
                          return Touches(copy, position, position + (end - begin));
                        });
    if (needed)
      plan->chunks.push_back({tensor, box.file, begin, end, position, box.xxh3[i], first_copy, plan->copies.size()});
  }
}

void SortChunks(LoadPlan* plan) {
  const auto place = [](const ChunkRead& chunk) { return std::tuple(chunk.file, chunk.begin, chunk.end); };
  std::sort(plan->chunks.begin(), plan->chunks.end(),
            [&](const ChunkRead& a, const ChunkRead& b) { return place(a) < place(b); });
}

// Returns whether all of the chunk is part of one run of one copy.
bool IsDirect(const LoadPlan& plan, const ChunkRead& chunk, const RunLimits& limits) {
  const int64_t bytes = chunk.end - chunk.begin;
  if (chunk.end_copy - chunk.first_copy != 1) return false;
  const BoxCopy& copy = plan.copies[chunk.first_copy].bytes;
  return copy.run_bytes >= limits.direct_least && copy.loops.empty() && copy.source_begin <= chunk.position &&
         copy.source_begin + copy.run_bytes >= chunk.position + bytes;
}

}  // namespace

LoadPlan PlanLoad(const Manifest& manifest, absl::Span<const WantedBox> wanted) {
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return wanted[a].tensor < wanted[b].tensor; });
  LoadPlan plan;
  plan.copies.reserve(wanted.size());
  plan.chunks.reserve(wanted.size());
  for (size_t i = 0; i < order.size();) {
    const size_t tensor = wanted[order[i]].tensor;
    size_t end = i;
    while (end < order.size() && wanted[order[end]].tensor == tensor) ++end;
    for (const Box& box : manifest.tensors[tensor].boxes) {
      const size_t first_copy = plan.copies.size();
      for (size_t k = i; k < end; ++k) {
        const WantedBox& want = wanted[order[k]];
        auto copy = PlanBoxCopy({box.offset, box.shape}, want.extent, want.strides, want.element_bytes);
        if (copy) plan.copies.push_back({*std::move(copy), order[k]});
      }
      if (plan.copies.size() > first_copy) AddChunks(box, tensor, first_copy, /*all=*/false, &plan);
    }
    i = end;
  }
  SortChunks(&plan);
  return plan;
}

LoadPlan PlanVerify(const Manifest& manifest) {
  LoadPlan plan;
  plan.chunks.reserve(manifest.tensors.size());
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    for (const Box& box : manifest.tensors[i].boxes) AddChunks(box, i, 0, /*all=*/true, &plan);
  }
  SortChunks(&plan);
  return plan;
}

std::vector<ChunkRun> RunsOf(const LoadPlan& plan, const RunLimits& limits) {
  std::vector<ChunkRun> runs;
  const std::vector<ChunkRead>& chunks = plan.chunks;
  for (size_t i = 0; i < chunks.size();) {
    ChunkRun run{i, i + 1, IsDirect(plan, chunks[i], limits)};
    const int64_t limit = run.direct ? limits.direct_bytes : limits.buffer_bytes;
    const int64_t gap = run.direct ? 0 : limits.gap_bytes;
    for (; run.end < chunks.size(); ++run.end) {
      const ChunkRead& next = chunks[run.end];
      const int64_t between = next.begin - chunks[run.end - 1].end;  // negative: in no manifest that we wrote
      if (next.file != chunks[i].file || between < 0 || between > gap || next.end - chunks[i].begin > limit ||
          IsDirect(plan, next, limits) != run.direct)
        break;
      if (run.direct && next.first_copy != chunks[i].first_copy) break;
    }
    runs.push_back(run);
    i = run.end;
  }
  return runs;
}

}  // namespace composer
