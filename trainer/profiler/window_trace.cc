// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/window_trace.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/machine_stats.h"
#include "base/status_macros.h"

namespace composer {
namespace {

TraceRow RowOf(const OpEvent& op) {
  return op.device < 0 ? TraceRow::Thread(op.thread) : TraceRow::Stream(op.device, op.stream);
}

// A communicator's own thread runs collectives but no operators.
bool RunsCollectivesOnly(const Window& window, uint64_t thread) {
  const auto is_of = [thread](const auto& event) { return event.thread == thread; };
  const auto is_other = [&](const SpanRecord& span) {
    return is_of(span) && span.name->category != kReduceSpan.category;
  };
  return thread != window.training_thread && std::ranges::any_of(window.spans, is_of) &&
         std::ranges::none_of(window.spans, is_other) &&
         std::ranges::none_of(window.ops, [&](const OpEvent& op) { return op.device < 0 && is_of(op); });
}

std::string NameOfThread(const Window& window, uint64_t thread) {
  if (thread == window.training_thread) return "training loop";
  return absl::StrCat(RunsCollectivesOnly(window, thread) ? "collectives, thread " : "thread ", thread);
}

// The batches are the first row, followed by the training thread, the other threads, and the streams.
void WriteRows(const Window& window, const TraceFileHeader& header, TraceFileWriter& out) {
  out.ProcessName(absl::StrCat("rank ", header.rank, " (", HostName(), ", process ", getpid(), ")"));
  std::set<uint64_t> threads;
  std::set<std::pair<int, int64_t>> streams;
  for (const SpanRecord& span : window.spans) threads.insert(span.thread);
  for (const OpEvent& op : window.ops) {
    if (op.device < 0) {
      threads.insert(op.thread);
    } else {
      streams.emplace(op.device, op.stream);
    }
  }
  out.RowName(TraceRow::Batches(), "batches", -1);
  for (const uint64_t thread : threads) {
    out.RowName(TraceRow::Thread(thread), NameOfThread(window, thread),
                thread == window.training_thread ? 0 : static_cast<int64_t>(thread));
  }
  for (const auto& [device, stream] : streams) {
    const TraceRow row = TraceRow::Stream(device, stream);
    out.RowName(row, absl::StrCat("GPU ", device, " stream ", stream), row.tid);
  }
}

void WriteBatches(const Window& window, const TraceFileHeader& header, TraceFileWriter& out) {
  for (const BatchEvent& batch : window.batches) {
    if (header.with_profiler_steps) {
      out.Complete(absl::StrCat("ProfilerStep#", batch.batch), "user_annotation", batch.begin_ns,
                   batch.end_ns - batch.begin_ns, TraceRow::Thread(window.training_thread));
    }
    out.Complete(absl::StrCat("epoch ", batch.epoch, " batch ", batch.batch), "batch", batch.begin_ns,
                 batch.end_ns - batch.begin_ns, TraceRow::Batches(),
                 absl::StrCat("\"epoch\":", batch.epoch, ",\"batch\":", batch.batch));
  }
}

void WriteSpans(const Window& window, TraceFileWriter& out) {
  for (const SpanRecord& span : window.spans) {
    const TraceRow row = TraceRow::Thread(span.thread);
    switch (span.kind) {
      case SpanRecord::Kind::kSpan:
        out.Complete(span.name->name, span.name->category, span.begin_ns, span.end_ns - span.begin_ns, row);
        break;
      case SpanRecord::Kind::kInstant:
        out.Instant(span.name->name, span.name->category, span.begin_ns, row);
        break;
      case SpanRecord::Kind::kCounter:
        out.Counter(span.name->name, span.begin_ns, {{std::string(span.name->name), span.value}});
        break;
    }
  }
}

void WriteOps(const Window& window, TraceFileWriter& out) {
  absl::flat_hash_map<uint64_t, const OpEvent*> launchers;
  for (const OpEvent& op : window.ops) {
    if (op.device < 0) launchers.emplace(op.id, &op);
  }
  std::string args;
  uint64_t arrow = 0;
  for (const OpEvent& op : window.ops) {
    args.clear();
    if (!op.shapes.empty()) absl::StrAppend(&args, "\"shapes\":", op.shapes);
    if (op.flops > 0) absl::StrAppend(&args, args.empty() ? "" : ",", "\"flops\":", op.flops);
    out.Complete(op.name, op.device < 0 ? "operator" : "kernel", op.begin_ns, op.duration_ns, RowOf(op), args);
    if (op.device < 0 || op.launcher == 0) continue;
    const auto launcher = launchers.find(op.launcher);
    if (launcher == launchers.end()) continue;
    out.Arrow(++arrow, launcher->second->begin_ns, RowOf(*launcher->second), op.begin_ns, RowOf(op));
  }
}

}  // namespace

absl::Status WriteTrace(const Window& window, const TraceFileHeader& header, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TraceFileWriter> out, TraceFileWriter::Create(path, header));
  WriteRows(window, header, *out);
  WriteBatches(window, header, *out);
  WriteSpans(window, *out);
  WriteOps(window, *out);
  for (const CounterSample& sample : window.counters) out->Counter(sample.name, sample.time_ns, sample.values);
  if (window.dropped_spans > 0) {
    LOG(WARNING) << path << " lacks " << window.dropped_spans << " spans for which there was no room";
  }
  return out->Finish();
}

}  // namespace composer
