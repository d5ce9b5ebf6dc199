// Loads the next batches of a DataLoader on its own threads while the step runs, and notices when a dataset hangs.
//
// Arithmetic decides which samples are in which batch, so the workers need no queue of indices and resuming needs no
// replay: the requested batch and the `prefetch_factor * num_workers` batches after it are loaded, in that order,
// whatever was requested before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/data/data_loader.h"
#include "trainer/options/prefetch_options.h"

namespace composer {

class Prefetcher {
 public:
  using Options = PrefetchOptions;

  static constexpr int64_t kManyEpochs = int64_t{1} << 40;

  // The loader must outlive the prefetcher, and its dataset's Load must be thread-safe (see dataset.h). Nothing is
  // loaded past the end of epoch num_epochs - 1.
  Prefetcher(std::shared_ptr<const DataLoader> loader, const Options& options, int64_t num_epochs = kManyEpochs);
  // Waits for batches that are being loaded, but after a timeout only for a second: a thread that is still in the
  // dataset's Load is then left behind and shares ownership of the loader.
  ~Prefetcher();

  // Same as DataLoader::Load, with its exceptions. After `timeout`, throws StatusError(kDeadlineExceeded) that names
  // the loader, the epoch, the batch and its first samples; no further call is allowed then.
  Batch Load(int64_t epoch, int64_t batch_in_epoch);

 private:
  struct Shared;
  static void RunWorker(std::shared_ptr<Shared> shared, size_t worker);
  static void LoadBatches(Shared& shared);

  std::shared_ptr<Shared> shared_;
};

}  // namespace composer
