// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/engine.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/random.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

// A MaybeSpan exists only while someone traces; otherwise not even its name is made.
class MaybeSpan {
 public:
  MaybeSpan(Tracer* tracer, EventSpans& names, Event event) {
    if (tracer != nullptr) span_.emplace(tracer, names.At(event));
  }

 private:
  std::optional<TraceSpan> span_;
};

// Returns whether what algorithms draw at the event is seeded by it: inside a pass it follows from the pass's seed, and
// in evaluation from the step before it.
bool DrawsByEvent(Event event) {
  switch (event) {
    case Event::kBeforeForward:
    case Event::kAfterForward:
    case Event::kBeforeLoss:
    case Event::kAfterLoss:
    case Event::kBeforeBackward:
    case Event::kAfterBackward:
      return false;
    default:
      return event <= Event::kFitEnd;
  }
}

}  // namespace

EventSpans::EventSpans(std::string prefix, absl::string_view category)
    : prefix_(std::move(prefix)), category_(category) {}

const TraceName& EventSpans::At(Event event) {
  std::unique_ptr<Made>& slot = made_[static_cast<size_t>(event)];
  if (slot == nullptr) {
    slot = std::make_unique<Made>();
    slot->text = absl::StrCat(prefix_, "event/", EventName(event));
    slot->name = {slot->text, category_};
  }
  return slot->name;
}

Engine::Engine(State& state, Logger& logger, EngineOptions options)
    : state_(state),
      logger_(logger),
      log_traces_(options.log_traces),
      passes_(WithDefaultPasses(options.algorithm_passes)),
      spans_("", "event") {
  for (const auto& callback : state_.callbacks) ReadCallback(*callback);
  AlgorithmList all;
  for (const auto& algorithm : state_.algorithms) {
    ReadAlgorithm(*algorithm);
    all.push_back({algorithm.get(), algorithms_.back()->name, all.size()});
  }
  if (const std::string warning = LossInterpolationWarning(all); !warning.empty()) LOG(WARNING) << warning;
}

void Engine::ReadCallback(Callback& callback) {
  const std::string name = callback.name();
  callbacks_.push_back(std::make_unique<CallbackEntry>(
      CallbackEntry{&callback, name, EventSpans(absl::StrCat("callback/", name, "/"), "callback")}));
  const EventSet wanted = callback.events();
  listened_.Add(wanted);
  for (int i = 0; i < kNumEvents; ++i) {
    if (wanted.Has(static_cast<Event>(i))) listeners_[static_cast<size_t>(i)].push_back(callbacks_.back().get());
  }
}

void Engine::ReadAlgorithm(Algorithm& algorithm) {
  const std::string name = algorithm.name();
  const EventSet wanted = algorithm.events();
  algorithms_.push_back(std::make_unique<AlgorithmEntry>(
      AlgorithmEntry{&algorithm, name, wanted, EventSpans(absl::StrCat("algorithm/", name, "/"), "algorithm"), {}}));
  algorithms_.back()->trace_ids.fill(-1);
  listened_.Add(wanted);
}

void Engine::Add(std::unique_ptr<Algorithm> algorithm) {
  ReadAlgorithm(*algorithm);
  state_.algorithms.push_back(std::move(algorithm));
}

absl::Status Engine::Dispatch(Event event) {
  if (is_closed_)
    return absl::FailedPreconditionError("the engine is closed and runs no more events; make a new trainer");
  const MaybeSpan span(state_.tracer, spans_, event);
  if (event == Event::kInit) {
    logger_.See(event, state_);
    RETURN_IF_ERROR(RunCallbacks(event));
    return RunAlgorithms(event);
  }
  RETURN_IF_ERROR(RunAlgorithms(event));
  RETURN_IF_ERROR(RunCallbacks(event));
  logger_.See(event, state_);
  return absl::OkStatus();
}

// Asks all algorithms before applying the first, so that the changes of one do not decide whether another applies.
absl::Status Engine::RunAlgorithms(Event event) {
  AlgorithmList matching;
  for (size_t i = 0; i < algorithms_.size(); ++i) {
    const AlgorithmEntry& entry = *algorithms_[i];
    if (entry.wanted.Has(event) && entry.algorithm->Match(event, state_))
      matching.push_back({entry.algorithm, entry.name, i});
  }
  if (matching.empty()) return absl::OkStatus();
  if (seeds_ && DrawsByEvent(event))
    SeedForEvent(state_.identity.seed, state_.identity.data_rank, state_.timestamp.batch, static_cast<int>(event));
  for (const AlgorithmPass& pass : passes_) matching = pass(std::move(matching), event);
  for (const NamedAlgorithm& item : matching) {
    AlgorithmEntry& entry = *algorithms_[item.index];
    const MaybeSpan span(state_.tracer, entry.spans, event);
    if (log_traces_) LogTrace(entry, event);
    if (absl::Status status = entry.algorithm->Apply(event, state_, logger_); !status.ok()) {
      return Annotate(status, absl::StrCat("algorithm ", entry.name, " at ", EventName(event)));
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::RunCallbacks(Event event) {
  for (CallbackEntry* entry : listeners_[static_cast<size_t>(event)]) {
    const MaybeSpan span(state_.tracer, entry->spans, event);
    if (absl::Status status = entry->callback->Run(event, state_, logger_); !status.ok()) {
      return Annotate(status, absl::StrCat("callback ", entry->name, " at ", EventName(event)));
    }
  }
  return absl::OkStatus();
}

void Engine::LogTrace(AlgorithmEntry& entry, Event event) {
  Logger::MetricId& id = entry.trace_ids[static_cast<size_t>(event)];
  if (id < 0) id = logger_.Intern(absl::StrCat("algorithm_traces/", entry.name, "/", EventName(event)));
  logger_.Log(id, 1);
}

void Engine::Close() {
  if (is_closed_) return;
  is_closed_ = true;
  listened_ = EventSet::All();  // makes Run notice
  std::vector<CallbackEntry*> closed;
  for (const auto& entry : callbacks_) {
    const absl::Status status = CatchTorch([&] { return entry->callback->Close(state_, logger_); });
    if (status.ok()) closed.push_back(entry.get());
    if (!status.ok()) LOG(ERROR) << "closing callback " << entry->name << ": " << status;
  }
  for (CallbackEntry* entry : closed) {
    const absl::Status status = CatchTorch([&] { return entry->callback->PostClose(); });
    if (!status.ok()) LOG(ERROR) << "after closing callback " << entry->name << ": " << status;
  }
}

}  // namespace composer
