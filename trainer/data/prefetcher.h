// Loads the next batches of a Loader on its own threads while the step runs, and notices when a dataset hangs.
//
// Arithmetic decides which samples are in which batch, so the workers need no queue of indices and resuming needs no
// replay: the requested batch and the `prefetch_factor * num_workers` batches after it are loaded, in that order,
// whatever was requested before. Of a stream one worker at a time reads the next batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "trainer/data/data_loader.h"
#include "trainer/options/prefetch_options.h"

namespace composer {

class Prefetcher {
 public:
  using Options = PrefetchOptions;

  static constexpr int64_t kManyEpochs = int64_t{1} << 40;

  // The loader's dataset must be thread-safe (see dataset.h). Nothing is loaded past the end of epoch num_epochs - 1.
  Prefetcher(std::shared_ptr<Loader> loader, const Options& options, int64_t num_epochs = kManyEpochs);
  // Waits for batches that are being loaded, but after a timeout only for a second: a thread that is still in the
  // dataset's Load is then left behind and shares ownership of the loader.
  ~Prefetcher();

  // Same as Loader::Load, with its exceptions. After `timeout`, throws StatusError(kDeadlineExceeded) that names the
  // loader, the epoch and the first samples; no further call is allowed then.
  LoadedBatch Load(int64_t epoch, int64_t sample_in_epoch);

 private:
  // Where a batch begins.
  struct Position {
    int64_t epoch = 0;
    int64_t sample = 0;
    auto operator<=>(const Position&) const = default;
  };
  struct Shared;
  static void RunWorker(std::shared_ptr<Shared> shared, size_t worker);
  static void LoadBatches(Shared& shared);

  std::shared_ptr<Shared> shared_;
};

}  // namespace composer
