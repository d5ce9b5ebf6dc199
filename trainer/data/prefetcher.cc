// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/prefetcher.h"

#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "trainer/core/torch_status.h"

namespace composer {

// The prefetcher and its workers own this together, so that a worker that hangs may outlive the prefetcher.
struct Prefetcher::Shared {
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  std::shared_ptr<const DataLoader> loader;
  Options options;
  int64_t end = 0;  // the first batch that does not exist
  std::vector<std::thread> threads;
  absl::Mutex mutex;
  std::vector<char> left ABSL_GUARDED_BY(mutex);  // per worker: it has ended
  bool stop ABSL_GUARDED_BY(mutex) = false;
  bool timed_out ABSL_GUARDED_BY(mutex) = false;
  // Batches are numbered through all epochs. Those in [begin, next) were requested: they are loaded or being loaded.
  int64_t begin ABSL_GUARDED_BY(mutex) = 0;
  int64_t next ABSL_GUARDED_BY(mutex) = 0;
  bool asked ABSL_GUARDED_BY(mutex) = false;
  std::map<int64_t, std::shared_ptr<Slot>> slots ABSL_GUARDED_BY(mutex);

  int64_t ahead() const { return static_cast<int64_t>(options.num_workers) * options.prefetch_factor; }
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    return stop || (asked && next < end && next <= begin + ahead());
  }
  bool AllLeft() const ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    return std::all_of(left.begin(), left.end(), [](char worker) { return worker != 0; });
  }

  Batch LoadNow(int64_t number) const {
    const int64_t per_epoch = loader->batches_per_epoch();
    Batch batch = loader->Load(number / per_epoch, number % per_epoch);
    return options.pin_memory ? Pinned(std::move(batch)) : batch;
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

Prefetcher::Prefetcher(std::shared_ptr<const DataLoader> loader, const Options& options, int64_t num_epochs)
    : shared_(std::make_shared<Shared>()) {
  TORCH_CHECK_VALUE(options.timeout == absl::ZeroDuration() || options.num_workers > 0,
                    "dataloader timeout: needs num_workers of at least 1, a thread that can be waited for");
  shared_->loader = std::move(loader);
  shared_->options = options;
  shared_->end = std::min(num_epochs, kManyEpochs) * shared_->loader->batches_per_epoch();
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
    int64_t number;
    std::shared_ptr<Shared::Slot> slot;
    {
      const absl::MutexLock lock(&shared.mutex);
      shared.mutex.Await(absl::Condition(&shared, &Shared::HasWork));
      if (shared.stop) return;
      number = shared.next++;
      slot = shared.slots[number] = std::make_shared<Shared::Slot>();
    }
    Batch batch;
    std::exception_ptr error;
    try {
      batch = shared.LoadNow(number);
    } catch (...) {
      error = std::current_exception();
    }
    const absl::MutexLock lock(&shared.mutex);
    slot->batch = std::move(batch);
    slot->error = error;
    slot->ready = true;
  }
}

Batch Prefetcher::Load(int64_t epoch, int64_t batch_in_epoch) {
  const int64_t number = epoch * shared_->loader->batches_per_epoch() + batch_in_epoch;
  if (shared_->options.num_workers == 0) return shared_->LoadNow(number);
  const absl::MutexLock lock(&shared_->mutex);
  if (!shared_->asked || number < shared_->begin || number > shared_->next) {
    shared_->slots.clear();
    shared_->next = number;
  }
  shared_->asked = true;
  shared_->begin = number;
  shared_->slots.erase(shared_->slots.begin(), shared_->slots.lower_bound(number));
  const auto ready = [this, number]() ABSL_SHARED_LOCKS_REQUIRED(shared_->mutex) {
    const auto slot = shared_->slots.find(number);
    return slot != shared_->slots.end() && slot->second->ready;
  };
  const absl::Duration timeout = shared_->options.timeout;
  if (!shared_->mutex.AwaitWithTimeout(absl::Condition(&ready),
                                       timeout > absl::ZeroDuration() ? timeout : absl::InfiniteDuration())) {
    shared_->timed_out = true;
    throw StatusError(absl::DeadlineExceededError(
        absl::StrCat(shared_->loader->label(), " loader, epoch ", epoch, ", batch ", batch_in_epoch,
                     ": no batch after ", absl::FormatDuration(timeout), "; it loads the samples ",
                     absl::StrJoin(shared_->loader->FirstSamples(epoch, batch_in_epoch, 3), ", "),
                     ", …; look at the storage they lie on, or raise ", shared_->loader->label(),
                     "_dataloader.timeout or num_workers")));
  }
  const auto slot = shared_->slots.extract(number).mapped();
  if (slot->error) std::rethrow_exception(slot->error);
  shared_->begin = number + 1;
  return std::move(slot->batch);
}

}  // namespace composer
