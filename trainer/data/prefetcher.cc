// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/prefetcher.h"

#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "trainer/core/torch_status.h"

namespace composer {

// The prefetcher and its workers own this together, so that a worker that hangs may outlive the prefetcher.
struct Prefetcher::Shared {
  struct Slot {
    bool ready = false;
    LoadedBatch batch;
    std::exception_ptr error;
  };

  std::shared_ptr<Loader> loader;
  Options options;
  int64_t num_epochs = 0;
  std::vector<std::thread> threads;
  absl::Mutex mutex;
  std::vector<char> left ABSL_GUARDED_BY(mutex);  // per worker: it has ended
  bool stop ABSL_GUARDED_BY(mutex) = false;
  bool timed_out ABSL_GUARDED_BY(mutex) = false;
  bool asked ABSL_GUARDED_BY(mutex) = false;
  bool reading ABSL_GUARDED_BY(mutex) =
      false;                             // a worker reads a stream, and only then knows where the next batch begins
  Position next ABSL_GUARDED_BY(mutex);  // of the first batch that no worker has begun to load
  // The requested batch, if it was not taken yet, and those after it up to `next`: loaded or being loaded.
  std::map<Position, std::shared_ptr<Slot>> slots ABSL_GUARDED_BY(mutex);

  size_t ahead() const {
    return static_cast<size_t>(options.num_workers) * static_cast<size_t>(options.prefetch_factor);
  }
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    return stop || (asked && !reading && next.epoch < num_epochs && slots.size() <= ahead());
  }
  bool AllLeft() const ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    return std::all_of(left.begin(), left.end(), [](char worker) { return worker != 0; });
  }

  // Returns where the batch after this one begins, which has `samples`; 0 at the end of an epoch.
  Position After(const Position& position, int64_t samples) const {
    if (samples == 0) return {position.epoch + 1, 0};
    const Position after = {position.epoch, position.sample + samples};
    return loader->SamplesAt(after.sample) == 0 ? Position{position.epoch + 1, 0} : after;
  }
  LoadedBatch LoadNow(const Position& position) const {
    LoadedBatch loaded = loader->Load(position.epoch, position.sample);
    if (options.pin_memory) loaded.batch = Pinned(std::move(loaded.batch));
    return loaded;
  }
  static Batch Pinned(Batch batch) {
    const auto pin = [](at::Tensor& tensor) {
      if (tensor.defined() && tensor.is_cpu()) tensor = tensor.pin_memory();
    };
    pin(batch.inputs);
    pin(batch.targets);
    for (auto& [name, tensor] : batch.extra) pin(tensor);
    for (auto& [name, list] : batch.ragged) std::for_each(list.begin(), list.end(), pin);
    return batch;
  }
};

Prefetcher::Prefetcher(std::shared_ptr<Loader> loader, const Options& options, int64_t num_epochs)
    : shared_(std::make_shared<Shared>()) {
  TORCH_CHECK_VALUE(options.timeout == absl::ZeroDuration() || options.num_workers > 0,
                    "dataloader timeout: needs num_workers of at least 1, a thread that can be waited for");
  shared_->loader = std::move(loader);
  shared_->options = options;
  shared_->num_epochs = num_epochs;
  {
    const absl::MutexLock lock(&shared_->mutex);
    shared_->left.resize(static_cast<size_t>(options.num_workers));
  }
  for (int i = 0; i < options.num_workers; ++i)
    shared_->threads.emplace_back(RunWorker, shared_, static_cast<size_t>(i));
}

Prefetcher::~Prefetcher() {
  std::vector<char> left;
  {
    const absl::MutexLock lock(&shared_->mutex);
    shared_->stop = true;
    shared_->mutex.AwaitWithTimeout(absl::Condition(shared_.get(), &Shared::AllLeft),
                                    shared_->timed_out ? absl::Seconds(1) : absl::InfiniteDuration());
    left = shared_->left;
  }
  for (size_t i = 0; i < left.size(); ++i) {
    std::thread& thread = shared_->threads[i];
    left[i] != 0 ? thread.join() : thread.detach();
  }
}

void Prefetcher::RunWorker(std::shared_ptr<Shared> shared, size_t worker) {
  LoadBatches(*shared);
  const absl::MutexLock lock(&shared->mutex);
  shared->left[worker] = 1;
}

void Prefetcher::LoadBatches(Shared& shared) {
  for (;;) {
    Position position;
    std::shared_ptr<Shared::Slot> slot;
    bool is_stream;
    {
      const absl::MutexLock lock(&shared.mutex);
      shared.mutex.Await(absl::Condition(&shared, &Shared::HasWork));
      if (shared.stop) return;
      position = shared.next;
      slot = shared.slots[position] = std::make_shared<Shared::Slot>();
      const int64_t samples = shared.loader->SamplesAt(position.sample);
      is_stream = shared.reading = samples == kUnknownSize;
      if (!is_stream) shared.next = shared.After(position, samples);
    }
    LoadedBatch batch;
    std::exception_ptr error;
    try {
      batch = shared.LoadNow(position);
    } catch (...) {
      error = std::current_exception();
    }
    const absl::MutexLock lock(&shared.mutex);
    if (is_stream) {
      shared.reading = false;
      const auto found = shared.slots.find(position);
      const bool is_wanted = found != shared.slots.end() && found->second == slot;  // else another one was asked for
      if (is_wanted) shared.next = shared.After(position, batch.global_samples);
    }
    slot->batch = std::move(batch);
    slot->error = error;
    slot->ready = true;
  }
}

LoadedBatch Prefetcher::Load(int64_t epoch, int64_t sample_in_epoch) {
  const Position position = {epoch, sample_in_epoch};
  if (shared_->loader->SamplesAt(sample_in_epoch) == 0) return {};
  if (shared_->options.num_workers == 0) return shared_->LoadNow(position);
  const absl::MutexLock lock(&shared_->mutex);
  shared_->slots.erase(shared_->slots.begin(), shared_->slots.lower_bound(position));
  const bool is_underway = shared_->asked && (shared_->slots.count(position) > 0 || shared_->next == position);
  if (!is_underway) {
    shared_->slots.clear();
    shared_->next = position;
  }
  shared_->asked = true;
  const auto ready = [this, &position]() ABSL_SHARED_LOCKS_REQUIRED(shared_->mutex) {
    const auto slot = shared_->slots.find(position);
    return slot != shared_->slots.end() && slot->second->ready;
  };
  const absl::Duration timeout = shared_->options.timeout;
  if (!shared_->mutex.AwaitWithTimeout(absl::Condition(&ready),
                                       timeout > absl::ZeroDuration() ? timeout : absl::InfiniteDuration())) {
    shared_->timed_out = true;
    const Loader& loader = *shared_->loader;
    const int64_t batch = (sample_in_epoch + loader.global_batch_size() - 1) / loader.global_batch_size();
    throw StatusError(absl::DeadlineExceededError(absl::StrCat(
        loader.label(), " loader, epoch ", epoch, ", batch ", batch, ": no batch after ", absl::FormatDuration(timeout),
        "; it loads ", loader.Describe(epoch, sample_in_epoch), "; look at the storage they lie on, or raise ",
        loader.label(), "_dataloader.timeout or num_workers")));
  }
  const auto slot = shared_->slots.extract(position).mapped();
  if (slot->error) std::rethrow_exception(slot->error);
  return std::move(slot->batch);
}

}  // namespace composer
