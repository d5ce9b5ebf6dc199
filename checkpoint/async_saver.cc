// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/async_saver.h"

#include <utility>

#include "absl/time/time.h"

namespace composer {

AsyncSaver::AsyncSaver(ObjectStore& store, RankExchange exchange, SaverOptions options,
                       std::shared_ptr<SaveThread> thread, bool pinned)
    : given_up_(std::make_shared<std::atomic<bool>>(false)),
      rank_(exchange.rank()),
      world_size_(exchange.world_size()),
      saver_(store, std::move(exchange).GivenUpBy(given_up_), std::move(options)),
      buffer_(pinned),
      thread_(std::move(thread)) {}

AsyncSaver::~AsyncSaver() {
  given_up_->store(true);
  if (in_flight_) Take().location.status().IgnoreError();
}

void AsyncSaver::Start(const StateDict& state, CheckpointName step, int64_t samples) {
  in_flight_ = true;
  auto snapshot = std::make_shared<absl::StatusOr<Snapshot>>(CopyState(state, rank_, world_size_, buffer_));
  thread_->Run([this, snapshot, step, samples]() mutable {
    absl::StatusOr<std::string> location = saver_.SaveSnapshot(*snapshot, step, samples);
    snapshot.reset();  // views of the buffer go before the next save may grow it
    SetOutcome({step, std::move(location)});
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
