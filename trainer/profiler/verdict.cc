// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/verdict.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace composer {
namespace {

constexpr double kMuchCommunication = 0.20;
constexpr double kMuchDataWait = 0.10;
constexpr size_t kTopOps = 10;

struct Interval {
  int64_t begin;
  int64_t end;
};

// Sums nanoseconds by category, each instant attributed to the innermost span.
std::map<absl::string_view, int64_t> OwnTimes(const Window& window) {
  std::vector<const SpanRecord*> spans;
  for (const SpanRecord& span : window.spans) {
    if (span.kind == SpanRecord::Kind::kSpan && span.thread == window.training_thread) spans.push_back(&span);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const SpanRecord* a, const SpanRecord* b) {
    return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->end_ns > b->end_ns;
  });
  std::map<absl::string_view, int64_t> own;
  std::vector<const SpanRecord*> open;
  for (const SpanRecord* span : spans) {
    while (!open.empty() && open.back()->end_ns <= span->begin_ns) open.pop_back();
    const int64_t length = span->end_ns - span->begin_ns;
    own[span->name->category] += length;
    if (!open.empty()) own[open.back()->name->category] -= length;
    open.push_back(span);
  }
  return own;
}

std::vector<Interval> Union(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> merged;
  for (const Interval& next : intervals) {
    if (!merged.empty() && next.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, next.end);
    } else {
      merged.push_back(next);
    }
  }
  return merged;
}

int64_t Length(const std::vector<Interval>& disjoint) {
  int64_t total = 0;
  for (const Interval& interval : disjoint) total += interval.end - interval.begin;
  return total;
}

// Returns the total overlap of two ordered lists of disjoint intervals.
int64_t Overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  int64_t total = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    total += std::max<int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    ++(a[i].end < b[j].end ? i : j);
  }
  return total;
}

void JudgeCollectives(const Window& window, ProfileVerdict& verdict) {
  std::vector<Interval> running, waiting;
  for (const SpanRecord& span : window.spans) {
    if (span.kind != SpanRecord::Kind::kSpan || span.name->category != kReduceSpan.category) continue;
    (span.thread == window.training_thread ? waiting : running).push_back({span.begin_ns, span.end_ns});
  }
  running = Union(std::move(running));
  const int64_t length = Length(running);
  if (length == 0) return;
  verdict.collective_seconds = static_cast<double>(length) / 1e9;
  const int64_t exposed = Overlap(running, Union(std::move(waiting)));
  verdict.hidden_collectives = static_cast<double>(length - exposed) / static_cast<double>(length);
}

bool IsCommunication(absl::string_view kernel) { return absl::StartsWith(kernel, "nccl"); }

std::vector<DeviceVerdict> JudgeDevices(const Window& window) {
  std::map<int, std::vector<Interval>> all, computing;
  for (const OpEvent& op : window.ops) {
    if (op.device < 0) continue;
    const Interval interval{op.begin_ns, op.begin_ns + op.duration_ns};
    all[op.device].push_back(interval);
    if (!IsCommunication(op.name)) computing[op.device].push_back(interval);
  }
  const double length = static_cast<double>(std::max<int64_t>(1, window.end_ns - window.begin_ns));
  std::vector<DeviceVerdict> verdicts;
  for (auto& [device, intervals] : all) {
    const int64_t busy = Length(Union(std::move(intervals)));
    const int64_t computed = Length(Union(std::move(computing[device])));
    verdicts.push_back({device, static_cast<double>(busy) / length, static_cast<double>(busy - computed) / length});
  }
  return verdicts;
}

std::vector<OpTotal> Largest(std::map<std::string, OpTotal> totals) {
  std::vector<OpTotal> list;
  for (auto& [name, total] : totals) list.push_back(std::move(total));
  std::stable_sort(list.begin(), list.end(), [](const OpTotal& a, const OpTotal& b) { return a.seconds > b.seconds; });
  if (list.size() > kTopOps) list.resize(kTopOps);
  return list;
}

// Sums the operators' own times on the host, thread by thread. For kernels, which do not nest, sums the whole times.
std::vector<OpTotal> TotalOps(const Window& window, bool of_device) {
  std::vector<const OpEvent*> ops;
  for (const OpEvent& op : window.ops) {
    if ((op.device >= 0) == of_device) ops.push_back(&op);
  }
  std::stable_sort(ops.begin(), ops.end(), [](const OpEvent* a, const OpEvent* b) {
    if (a->thread != b->thread) return a->thread < b->thread;
    return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->duration_ns > b->duration_ns;
  });
  std::map<std::string, OpTotal> totals;
  std::vector<const OpEvent*> open;
  for (const OpEvent* op : ops) {
    while (!open.empty() &&
           (open.back()->thread != op->thread || open.back()->begin_ns + open.back()->duration_ns <= op->begin_ns)) {
      open.pop_back();
    }
    const double seconds = static_cast<double>(op->duration_ns) / 1e9;
    if (!open.empty() && !of_device) totals[open.back()->name].seconds -= seconds;
    OpTotal& total = totals[op->name];
    total.name = op->name;
    ++total.calls;
    total.seconds += seconds;
    total.flops += op->flops;
    open.push_back(op);
  }
  return Largest(std::move(totals));
}

std::vector<std::string> Advice(const ProfileVerdict& verdict) {
  std::vector<std::string> advice;
  double communication = verdict.communication;
  for (const DeviceVerdict& device : verdict.devices)
    communication = std::max(communication, device.exposed_communication);
  if (communication > kMuchCommunication) {
    advice.push_back(absl::StrFormat(
        "communication takes %.0f %% of the step: give each rank more work between exchanges (a larger batch, "
        "more microbatches a step), reduce in bf16, or use fewer, better connected ranks",
        communication * 100));
  }
  if (verdict.data_wait > kMuchDataWait) {
    advice.push_back(absl::StrFormat(
        "the step waits for data %.0f %% of the time: read ahead with more loader threads, keep the data on a "
        "local disk, or do less work a sample",
        verdict.data_wait * 100));
  }
  return advice;
}

}  // namespace

ProfileVerdict Judge(const Window& window) {
  std::map<absl::string_view, int64_t> own = OwnTimes(window);
  ProfileVerdict verdict;
  verdict.batches = static_cast<int64_t>(window.batches.size());
  verdict.evaluation_seconds = static_cast<double>(own[kEvaluationSpan.category]) / 1e9;
  verdict.checkpoint_seconds = static_cast<double>(own[kCheckpointSpan.category]) / 1e9;
  const int64_t counted =
      window.end_ns - window.begin_ns - own[kEvaluationSpan.category] - own[kCheckpointSpan.category];
  verdict.seconds = static_cast<double>(counted) / 1e9;
  const auto share = [&](int64_t ns) {
    return static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(1, counted));
  };
  verdict.forward = share(own[kForwardSpan.category]);
  verdict.backward = share(own[kBackwardSpan.category]);
  verdict.optimizer = share(own[kOptimizerSpan.category]);
  verdict.communication = share(own[kReduceSpan.category]);
  verdict.data_wait = share(own[kDataloaderSpan.category]);
  verdict.callbacks = share(own["event"] + own["algorithm"] + own["callback"]);
  verdict.gaps = 1 - verdict.forward - verdict.backward - verdict.optimizer - verdict.communication -
                 verdict.data_wait - verdict.callbacks;
  JudgeCollectives(window, verdict);
  verdict.devices = JudgeDevices(window);
  verdict.host_ops = TotalOps(window, /*of_device=*/false);
  verdict.device_ops = TotalOps(window, /*of_device=*/true);
  verdict.advice = Advice(verdict);
  return verdict;
}

namespace {

void AppendOps(const char* title, const std::vector<OpTotal>& ops, int64_t batches, std::string* text) {
  if (ops.empty()) return;
  absl::StrAppendFormat(text, "%-40s %12s %12s %10s\n", title, "ms a batch", "calls", "GFLOP/s");
  const double per_batch = 1e3 / static_cast<double>(std::max<int64_t>(1, batches));
  for (const OpTotal& op : ops) {
    const double rate = op.seconds > 0 ? static_cast<double>(op.flops) / op.seconds / 1e9 : 0;
    absl::StrAppendFormat(text, "  %-38s %12.3f %12d %10s\n", op.name.substr(0, 38), op.seconds * per_batch, op.calls,
                          op.flops > 0 ? absl::StrFormat("%.1f", rate) : "");
  }
}

}  // namespace

std::string VerdictText(const ProfileVerdict& verdict, const std::string& title) {
  const double ms = verdict.seconds * 1e3 / static_cast<double>(std::max<int64_t>(1, verdict.batches));
  std::string text = absl::StrFormat("%s: %d batches, %.3f ms each\n", title, verdict.batches, ms);
  const std::pair<const char*, double> kShares[] = {{"forward", verdict.forward},
                                                    {"backward", verdict.backward},
                                                    {"optimizer", verdict.optimizer},
                                                    {"communication", verdict.communication},
                                                    {"data wait", verdict.data_wait},
                                                    {"algorithms, callbacks", verdict.callbacks},
                                                    {"gaps", verdict.gaps}};
  for (const auto& [name, share] : kShares) absl::StrAppendFormat(&text, "  %-22s %5.1f %%\n", name, share * 100);
  if (verdict.collective_seconds > 0) {
    const double collectives_ms =
        verdict.collective_seconds * 1e3 / static_cast<double>(std::max<int64_t>(1, verdict.batches));
    absl::StrAppendFormat(&text, "collectives in the background: %.3f ms a batch, %.1f %% beside computation\n",
                          collectives_ms, verdict.hidden_collectives * 100);
  }
  for (const DeviceVerdict& device : verdict.devices) {
    absl::StrAppendFormat(&text, "GPU %d: busy %.1f %%, communication that hides behind no computation %.1f %%\n",
                          device.device, device.busy * 100, device.exposed_communication * 100);
  }
  if (verdict.evaluation_seconds > 0 || verdict.checkpoint_seconds > 0) {
    absl::StrAppendFormat(&text, "not counted: evaluation %.3f s, checkpoints %.3f s\n", verdict.evaluation_seconds,
                          verdict.checkpoint_seconds);
  }
  for (const std::string& advice : verdict.advice) absl::StrAppend(&text, "advice: ", advice, "\n");
  AppendOps("operators by their own time", verdict.host_ops, verdict.batches, &text);
  AppendOps("GPU kernels and copies", verdict.device_ops, verdict.batches, &text);
  return text;
}

std::string VerdictLine(const ProfileVerdict& verdict) {
  const double ms = verdict.seconds * 1e3 / static_cast<double>(std::max<int64_t>(1, verdict.batches));
  std::string line = absl::StrFormat(
      "%.3f ms a batch: forward %.0f %%, backward %.0f %%, optimizer %.0f %%, communication %.0f %%, data wait %.0f "
      "%%, "
      "algorithms and callbacks %.0f %%, gaps %.0f %%",
      ms, verdict.forward * 100, verdict.backward * 100, verdict.optimizer * 100, verdict.communication * 100,
      verdict.data_wait * 100, verdict.callbacks * 100, verdict.gaps * 100);
  for (const std::string& advice : verdict.advice) absl::StrAppend(&line, "; ", advice);
  return line;
}

}  // namespace composer
