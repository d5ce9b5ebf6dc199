// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/preemption_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace composer {

PreemptionWatch::PreemptionWatch(std::vector<std::unique_ptr<PreemptionSource>> sources, Handlers handlers,
                                 Clock* clock)
    : handlers_(std::move(handlers)), clock_(clock) {
  for (auto& source : sources) watched_.push_back({.source = std::move(source), .next = clock_->Now()});
  thread_ = std::thread([this] { Run(); });
}

PreemptionWatch::~PreemptionWatch() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

void PreemptionWatch::Run() {
  while (true) {
    absl::Time next;
    {
      absl::MutexLock lock(&looking_);
      for (Watched& watched : watched_) {
        if (!watched.noticed && clock_->Now() >= watched.next) Look(watched);
      }
      next = NextLook();
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&ending_), next - clock_->Now())) return;
  }
}

absl::Time PreemptionWatch::NextLook() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Watched& watched : watched_) {
    if (!watched.noticed) next = std::min(next, watched.next);
  }
  return next;
}

void PreemptionWatch::Look(Watched& watched) {
  const NoticeOr notice = watched.source->Look(clock_->Now());
  const absl::Time now = clock_->Now();
  watched.next = now + watched.source->interval();
  if (notice.ok()) {
    watched.failing_since = absl::InfiniteFuture();
    watched.noticed = notice->has_value();
    if (watched.noticed) handlers_.on_notice(**notice);
    return;
  }
  watched.failing_since = std::min(watched.failing_since, now);
  if (watched.failure_told || now - watched.failing_since < watched.source->patience()) return;
  watched.failure_told = true;
  handlers_.on_unreachable(absl::StrCat("--preemption: ", watched.source->name(),
                                        " gives no answer, asking on: ", notice.status().message()));
}

void PreemptionWatch::Acknowledge() {
  absl::MutexLock lock(&looking_);
  for (Watched& watched : watched_) {
    if (!watched.noticed) continue;
    if (const absl::Status status = watched.source->Acknowledge(); !status.ok()) {
      handlers_.on_unreachable(
          absl::StrCat("cannot acknowledge the notice of ", watched.source->name(), ": ", status.message()));
    }
  }
}

}  // namespace composer
