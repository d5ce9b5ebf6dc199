// Loads the next batches of a DataLoader on threads of its own while the step runs; also what notices that a dataset
// hangs.
//
// Which samples are in which batch is arithmetic, so the workers need no queue of indices and resuming needs no replay:
// the batch asked for and the `prefetch_factor * num_workers` after it are loaded, in that order, whatever was asked
// before.
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

  // The loader must outlive the prefetcher, and its dataset's Load be safe from several threads (as dataset.h says).
  // num_epochs: nothing is loaded ahead of the end of the last one.
  Prefetcher(std::shared_ptr<const DataLoader> loader, const Options& options, int64_t num_epochs = kManyEpochs);
  // Waits for batches that are being loaded. After a time-out only for a second: a thread that is still in the dataset's
  // Load then stays behind, and shares the loader.
  ~Prefetcher();

  // As DataLoader::Load, with its exceptions; StatusError(kDeadlineExceeded) that names loader, epoch, batch and its
  // first samples after `timeout`. After a time-out no further call is allowed.
  Batch Load(int64_t epoch, int64_t batch_in_epoch);

 private:
  struct Shared;
  static void RunWorker(std::shared_ptr<Shared> shared, size_t worker);
  static void LoadBatches(Shared& shared);

  std::shared_ptr<Shared> shared_;
};

}  // namespace composer
