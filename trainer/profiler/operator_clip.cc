// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/operator_clip.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace composer {
namespace {

// One end of a span.
struct Edge {
  int64_t time_ns;
  int64_t other_ns;  // the other end
};

struct OpInterval {
  int64_t begin, end;
};

OpInterval Clip(OpInterval op, const std::vector<Edge>& edges) {
  const auto later = [](int64_t time, const Edge& edge) { return time < edge.time_ns; };
  for (auto edge = std::upper_bound(edges.begin(), edges.end(), op.begin, later);
       edge != edges.end() && edge->time_ns < op.end; ++edge) {
    if (edge->time_ns <= op.begin) continue;  // already cut off
    if (op.begin <= edge->other_ns && edge->other_ns <= op.end) continue;
    if (edge->time_ns - op.begin > op.end - edge->time_ns) {
      op.end = edge->time_ns;
    } else {
      op.begin = edge->time_ns;
    }
  }
  return op;
}

}  // namespace

void ClipToSpans(absl::Span<const SpanRecord> spans, std::vector<OpEvent>& ops) {
  absl::flat_hash_map<uint64_t, std::vector<Edge>> by_thread;
  for (const SpanRecord& span : spans) {
    if (span.kind != SpanRecord::Kind::kSpan) continue;
    std::vector<Edge>& edges = by_thread[span.thread];
    edges.push_back({span.begin_ns, span.end_ns});
    edges.push_back({span.end_ns, span.begin_ns});
  }
  for (auto& [thread, edges] : by_thread)
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.time_ns < b.time_ns; });
  for (OpEvent& op : ops) {
    const auto edges = by_thread.find(op.thread);
    if (op.device >= 0 || edges == by_thread.end()) continue;
    const OpInterval kept = Clip({op.begin_ns, op.begin_ns + op.duration_ns}, edges->second);
    op.begin_ns = kept.begin;
    op.duration_ns = kept.end - kept.begin;
  }
}

}  // namespace composer
