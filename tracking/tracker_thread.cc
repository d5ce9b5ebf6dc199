// SPDX-License-Identifier: Apache-2.0
#include "tracking/tracker_thread.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/retry.h"

namespace composer {
namespace {

// A tracker may be away for days; what it misses is kept in the run folder.
constexpr RetryPolicy kTrackerAway = {.base = absl::Seconds(2),
                                      .cap = absl::Seconds(60),
                                      .budget = absl::InfiniteDuration(),
                                      .max_tries = std::numeric_limits<int>::max()};

}  // namespace

TrackerThread::TrackerThread(std::unique_ptr<Tracker> tracker, std::shared_ptr<std::atomic<bool>> given_up,
                             absl::Duration interval, std::string sync_advice)
    : given_up_(std::move(given_up)),
      interval_(interval),
      sync_advice_(std::move(sync_advice)),
      tracker_(std::move(tracker)),
      thread_([this] { Run(); }) {}

TrackerThread::~TrackerThread() {
  if (thread_.joinable()) Finish("failed", absl::ZeroDuration()).IgnoreError();
}

void TrackerThread::AddParameters(const std::vector<std::pair<std::string, std::string>>& parameters) {
  const absl::MutexLock lock(&mutex_);
  new_parameters_.insert(new_parameters_.end(), parameters.begin(), parameters.end());
  Wake();
}

bool TrackerThread::Drain() {
  {
    const absl::MutexLock lock(&mutex_);
    tracker_->AddParameters(std::exchange(new_parameters_, {}));
  }
  pending_ = false;
  absl::Status error;
  for (bool more = true; more && error.ok() && !given_up_->load();) {
    const absl::StatusOr<bool> sent = tracker_->SendSome();
    error = sent.status();
    more = sent.ok() && *sent;
  }
  const absl::MutexLock lock(&mutex_);
  last_error_ = error;
  if (error.ok()) {
    warned_ = false;
    return !given_up_->load();
  }
  pending_ = true;
  if (!std::exchange(warned_, true))
    LOG(WARNING) << "a tracker is not reached; training continues, and its records are sent later: " << error;
  return false;
}

void TrackerThread::Run() {
  absl::Duration wait = interval_;
  int failures = 0;
  while (true) {
    std::string end_state;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(+[](std::string* state) { return !state->empty(); }, &end_state_), wait);
      end_state = end_state_;
    }
    if (given_up_->load()) return;
    const bool sent = (!pending_.load() && end_state.empty()) || Drain();
    failures = sent ? 0 : failures + 1;
    wait = sent ? interval_ : *DelayBeforeRetry(kTrackerAway, failures, absl::ZeroDuration(), UniformRandom());
    if (end_state.empty()) continue;
    const absl::Status ended = sent ? tracker_->Finish(end_state) : absl::UnavailableError("");
    const absl::MutexLock lock(&mutex_);
    if (sent) last_error_ = ended;
    finished_ = ended.ok();
    if (finished_) return;
    wait = absl::Seconds(1);  // the condition holds: wait for the time alone
    mutex_.AwaitWithTimeout(
        absl::Condition(+[](std::atomic<bool>* given_up) { return given_up->load(); }, given_up_.get()), wait);
    if (given_up_->load()) return;
  }
}

absl::Status TrackerThread::Finish(const std::string& state, absl::Duration patience) {
  {
    const absl::MutexLock lock(&mutex_);
    end_state_ = state;
    mutex_.AwaitWithTimeout(absl::Condition(&finished_), patience);
    *given_up_ = true;
  }
  thread_.join();
  const absl::MutexLock lock(&mutex_);
  if (finished_) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("not everything was sent (", last_error_.message(), "); ", sync_advice_));
}

}  // namespace composer
