// Tracer is where spans go: the seam between code that does work (engine, loop, algorithms, callbacks) and a profiler
// that draws it on a time line. Everybody reads the pointer State::tracer; it is null except for the batches that are
// profiled, and then costs one branch.
//
//   const TraceSpan span(state.tracer, kForwardSpan);      // until the end of the scope
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace composer {

// A name is passed by its address, so that a span stores only a pointer. It must outlive the tracer's use of it: make
// it a constant, or a member of an object that lives as long as the run.
struct TraceName {
  absl::string_view name;      // "forward", "event/before_loss", "callback/LRMonitor/event/batch_end"
  absl::string_view category;  // the key of the sums in the profiler's verdict; see below
};

// These are the parts of a step, by category. An instant belongs to the innermost span around it: an algorithm inside
// forward counts as the algorithm, a wait for a collective inside backward as communication.
inline constexpr TraceName kDataloaderSpan{"dataloader", "data_wait"};
inline constexpr TraceName kForwardSpan{"forward", "forward"};
inline constexpr TraceName kLossSpan{"loss", "forward"};
inline constexpr TraceName kBackwardSpan{"backward", "backward"};
inline constexpr TraceName kReduceSpan{"reduce_gradients", "communication"};  // the time in which the step waits for it
// A collective while it runs, on whichever thread runs it, and the time that someone waits for one.
inline constexpr TraceName kAllReduceSpan{"all_reduce", "communication"};
inline constexpr TraceName kAllGatherSpan{"all_gather", "communication"};
inline constexpr TraceName kReduceScatterSpan{"reduce_scatter", "communication"};
inline constexpr TraceName kBroadcastSpan{"broadcast", "communication"};
inline constexpr TraceName kCollectiveWaitSpan{"wait_for_collective", "communication"};
inline constexpr TraceName kOptimizerSpan{"optimizer_step", "optimizer"};
inline constexpr TraceName kEvaluationSpan{"evaluation", "evaluation"};
inline constexpr TraceName kCheckpointSpan{"checkpoint", "checkpoint"};

// Thread-safe; a span must end on the thread that began it. Calls neither allocate nor lock.
class Tracer {
 public:
  using Span = uint64_t;  // defined by the tracer; 0: not recorded

  virtual ~Tracer() = default;
  virtual Span Begin(const TraceName& name) = 0;
  // Ignores a span that was cut off meanwhile because its trace was written.
  virtual void End(Span span) = 0;
  virtual void Instant(const TraceName& name) = 0;
  virtual void Counter(const TraceName& name, double value) = 0;
};

// A TraceSpan is a span that lasts as long as the object. The tracer, if any, must outlive it.
class TraceSpan {
 public:
  TraceSpan(Tracer* tracer, const TraceName& name)
      : tracer_(tracer), span_(tracer == nullptr ? 0 : tracer->Begin(name)) {}
  ~TraceSpan() {
    if (tracer_ != nullptr) tracer_->End(span_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Tracer* tracer_;
  Tracer::Span span_;
};

}  // namespace composer
