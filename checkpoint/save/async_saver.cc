// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/async_saver.h"

#include <utility>

#include "absl/time/time.h"
#include "base/status_macros.h"

namespace composer {

AsyncSaver::AsyncSaver(ObjectStore& store, RankExchange exchange, SaverOptions options,
                       std::shared_ptr<SaveThread> thread, bool pinned)
    : given_up_(std::make_shared<std::atomic<bool>>(false)),
      snapshotter_(exchange.rank(), exchange.world_size(), pinned),
      saver_(store, std::move(exchange).GivenUpBy(given_up_), std::move(options)),
      thread_(std::move(thread)) {}

AsyncSaver::~AsyncSaver() {
  given_up_->store(true);
  if (in_flight_ && !thread_->TakeBack(ticket_)) Take().location.status().IgnoreError();
}

absl::Status AsyncSaver::TakeSnapshot(const StateDict& state) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> sharded_bytes, saver_.ShardedBytesOfAll(state));
  return snapshotter_.Take(state, sharded_bytes);
}

void AsyncSaver::Start(const StateDict& state, CheckpointName step, int64_t samples) {
  in_flight_ = true;
  const absl::Status taken = TakeSnapshot(state);
  ticket_ = thread_->Run([this, taken, step, samples] {
    SetOutcome({step, saver_.SaveSnapshot(taken, snapshotter_.snapshot(), step, samples)});
  });
}

void AsyncSaver::SetOutcome(SaveOutcome outcome) {
  const absl::MutexLock lock(&mutex_);
  failed_.store(!outcome.location.ok(), std::memory_order_relaxed);
  outcome_ = std::move(outcome);
  ended_.store(true, std::memory_order_release);
}

bool AsyncSaver::WaitFor(absl::Duration limit) {
  if (!in_flight_) return true;
  const absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &AsyncSaver::HasOutcome), limit);
}

SaveOutcome AsyncSaver::Take() {
  WaitFor(absl::InfiniteDuration());
  const absl::MutexLock lock(&mutex_);
  SaveOutcome outcome = *std::move(outcome_);
  outcome_.reset();
  ended_.store(false, std::memory_order_relaxed);
  in_flight_ = false;
  return outcome;
}

}  // namespace composer
