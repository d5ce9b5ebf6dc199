// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {

Engine::Engine(State& state, Logger& logger) : state_(state), logger_(logger) {
  for (const auto& callback : state_.callbacks) {
    const EventSet wanted = callback->events();
    listened_.Add(wanted);
    for (int i = 0; i < kNumEvents; ++i) {
      if (wanted.Has(static_cast<Event>(i))) callbacks_[static_cast<size_t>(i)].push_back(callback.get());
    }
  }
  if (!state_.algorithms.empty()) listened_ = EventSet::All();
}

absl::Status Engine::Dispatch(Event event) {
  if (event == Event::kInit) {
    RETURN_IF_ERROR(RunCallbacks(event));
    return RunAlgorithms(event);
  }
  RETURN_IF_ERROR(RunAlgorithms(event));
  return RunCallbacks(event);
}

absl::Status Engine::RunAlgorithms(Event event) {
  std::vector<Algorithm*> matching;
  for (const auto& algorithm : state_.algorithms) {
    if (algorithm->Match(event, state_)) matching.push_back(algorithm.get());
  }
  // First in, last out: what BEFORE_… did last is undone first.
  if (IsAfterEvent(event)) std::reverse(matching.begin(), matching.end());
  for (Algorithm* algorithm : matching) {
    traces_.push_back({algorithm->name(), event, state_.timestamp.batch});
    if (absl::Status status = algorithm->Apply(event, state_, logger_); !status.ok()) {
      return Annotate(status, absl::StrCat("algorithm ", algorithm->name(), " at ", EventName(event)));
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::RunCallbacks(Event event) {
  for (Callback* callback : callbacks_[static_cast<size_t>(event)]) {
    if (absl::Status status = callback->Run(event, state_, logger_); !status.ok()) {
      return Annotate(status, absl::StrCat("callback ", callback->name(), " at ", EventName(event)));
    }
  }
  return absl::OkStatus();
}

}  // namespace composer
