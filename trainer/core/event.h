// These are the events of a run, in the order in which they fire. This comment is the training loop; train_loop.cc
// implements it.
//
//   INIT; BEFORE_LOAD; AFTER_LOAD
//   FIT_START
//   ITERATION_START
//   for each epoch:
//     EPOCH_START
//     for each batch:
//       BEFORE_DATALOADER; (next batch); AFTER_DATALOADER          BEFORE_DATALOADER fires once more at the epoch's end
//       BATCH_START
//       BEFORE_TRAIN_BATCH
//       for each microbatch:
//         BEFORE_FORWARD; AFTER_FORWARD; BEFORE_LOSS; AFTER_LOSS; BEFORE_BACKWARD; AFTER_BACKWARD
//       AFTER_TRAIN_BATCH
//       (optimizer step; schedulers; metrics; the timestamp advances)
//       BATCH_END; (evaluators); BATCH_CHECKPOINT
//     EPOCH_END; (evaluators); EPOCH_CHECKPOINT
//   ITERATION_END; ITERATION_CHECKPOINT                            only when an iteration length is set
//   FIT_END
//   evaluation: EVAL_BEFORE_ALL; per evaluator: EVAL_START; per batch: EVAL_BATCH_START, EVAL_BEFORE_FORWARD,
//     EVAL_AFTER_FORWARD, EVAL_BATCH_END; EVAL_END; then EVAL_AFTER_ALL (Trainer::Eval fires
//     EVAL_STANDALONE_START/END instead of the ALL pair)
//   prediction: PREDICT_START; per batch: PREDICT_BATCH_START, PREDICT_BEFORE_FORWARD, PREDICT_AFTER_FORWARD,
//     PREDICT_BATCH_END; PREDICT_END
// Source: mosaicml composer/core/event.py (40 events). Golden: tests/golden/events.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/time.h"

namespace composer {

enum class Event : int {
  kInit,
  kBeforeLoad,
  kAfterLoad,
  kFitStart,
  kIterationStart,
  kEpochStart,
  kBeforeDataloader,
  kAfterDataloader,
  kBatchStart,
  kBeforeTrainBatch,
  kBeforeForward,
  kAfterForward,
  kBeforeLoss,
  kAfterLoss,
  kBeforeBackward,
  kAfterBackward,
  kAfterTrainBatch,
  kBatchEnd,
  kBatchCheckpoint,
  kEpochEnd,
  kEpochCheckpoint,
  kIterationEnd,
  kIterationCheckpoint,
  kFitEnd,
  kEvalBeforeAll,
  kEvalStart,
  kEvalBatchStart,
  kEvalBeforeForward,
  kEvalAfterForward,
  kEvalBatchEnd,
  kEvalEnd,
  kEvalAfterAll,
  kEvalStandaloneStart,
  kEvalStandaloneEnd,
  kPredictStart,
  kPredictBatchStart,
  kPredictBeforeForward,
  kPredictAfterForward,
  kPredictBatchEnd,
  kPredictEnd,
};
inline constexpr int kNumEvents = 40;

// Returns Composer's name: "init", "before_load", … "predict_end".
absl::string_view EventName(Event event);
// Returns whether the event's name starts with AFTER_: there algorithms run in reverse order.
bool IsAfterEvent(Event event);

// An EventSet is a set of events. Callbacks declare with it which events they want, so that unwanted events cost
// nothing.
class EventSet {
 public:
  constexpr EventSet() = default;
  constexpr EventSet(std::initializer_list<Event> events) {
    for (Event event : events) bits_ |= uint64_t{1} << static_cast<int>(event);
  }
  static constexpr EventSet All() {
    EventSet result;
    result.bits_ = (uint64_t{1} << kNumEvents) - 1;
    return result;
  }
  constexpr bool Has(Event event) const { return (bits_ >> static_cast<int>(event)) & 1; }
  constexpr void Add(const EventSet& other) { bits_ |= other.bits_; }

 private:
  uint64_t bits_ = 0;
};

struct State;

// An Interval says how often a run evaluates or saves: every so much training time, or whenever a function says so.
//   options.save.save_interval = Time::Batches(100);
//   options.save.save_interval = [](const State& state, Event event) { return event == Event::kEpochCheckpoint; };
class Interval {
 public:
  // Asked at each event at which the thing could be done; it must answer the same on every rank. Source: mosaicml
  // composer/core/evaluator.py (eval_interval), composer/callbacks/checkpoint_saver.py (save_interval).
  using Function = std::function<bool(const State& state, Event event)>;

  Interval(Time every = Time()) : every_(every) {}
  template <typename F>
    requires std::is_invocable_r_v<bool, F&, const State&, Event>
  Interval(F is_due) : is_due_(std::move(is_due)) {}

  // Meaningless with a function.
  const Time& every() const { return every_; }
  // Empty: the time decides.
  const Function& is_due() const { return is_due_; }

 private:
  Time every_;
  Function is_due_;
};

}  // namespace composer
