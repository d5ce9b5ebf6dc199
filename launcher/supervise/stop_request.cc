// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/stop_request.h"

#include <signal.h>

namespace composer {
namespace {

constexpr absl::Duration kSameSigterm = absl::Seconds(1);

bool IsPolite(int signal) { return signal == kNoticeSignal || signal == SIGUSR1 || signal == SIGUSR2; }

StopDecision Follow(StopHistory history, bool listens) {
  const bool was_stopping = history.stopping;
  history.stopping = true;
  if (was_stopping) return {StopAction::kIgnore, history};
  return {listens ? StopAction::kDrain : StopAction::kPassOn, history};
}

}  // namespace

StopDecision DecideStop(const StopHistory& history, int signal, bool listens, absl::Time now) {
  if (IsPolite(signal)) {
    if (!listens && signal != kNoticeSignal) return {StopAction::kPassOn, history};
    return Follow(history, listens);
  }
  StopHistory next = history;
  next.signal = signal;
  next.at = now;
  if (history.signal == 0) {
    // After a notice, the programs have already had a SIGTERM.
    return Follow(next, listens);
  }
  const bool same_request = signal == SIGTERM && history.signal == SIGTERM && now - history.at < kSameSigterm;
  if (same_request || signal == SIGHUP) return {StopAction::kIgnore, history};
  return {StopAction::kKill, next};
}

}  // namespace composer
