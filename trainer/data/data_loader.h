// Reads a rank's share of each global batch on the calling thread. The loader has no position of its own: what to load
// is an argument, so there is nothing to save or to rewind. sample_order.h decides which samples form a batch.
// Source: replaces torch's DataLoader, DistributedSampler and Composer's DataSpec (composer/core/data_spec.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/core/batch.h"
#include "trainer/core/dataset.h"
#include "trainer/data/sample_order.h"

namespace composer {

class DataLoader final : public Loader {
 public:
  struct Options {
    std::string label = "train";    // in messages
    int64_t global_batch_size = 1;  // samples over all ranks, at least world_size
    bool shuffle = false;           // a new order each epoch
    bool drop_last = false;         // drops a short last batch
    uint64_t seed = 0;
    int rank = 0;
    int world_size = 1;
    int64_t subset_num_batches = -1;  // ends each epoch after this many batches; -1 means all
    // The parts of a batch of `count` samples that this rank reads, in this order. Null means RankShare.
    std::function<std::vector<SampleRange>(int64_t count)> share;
  };

  // Throws c10::ValueError when there are no samples, fewer samples in a batch than ranks, or no batch in an epoch.
  DataLoader(std::shared_ptr<const Dataset> dataset, Options options);

  const Dataset& dataset() const override { return *dataset_; }
  const std::string& label() const override { return options_.label; }
  int64_t batches_per_epoch() const override { return batches_per_epoch_; }
  int64_t global_samples(int64_t batch_in_epoch) const override;
  // Returns this rank's share, which has 0 samples when a short last batch has fewer samples than there are ranks.
  // Fills sample_ids. A dataset's c10::Error is rethrown with the loader's label, epoch and batch added; any other
  // exception becomes such an error. batch_in_epoch must be in [0, batches_per_epoch).
  Batch Load(int64_t epoch, int64_t batch_in_epoch) const;
  // Returns up to `count` of the samples that Load would read, for messages.
  std::vector<int64_t> FirstSamples(int64_t epoch, int64_t batch_in_epoch, int64_t count) const;

 private:
  std::vector<int64_t> SampleIds(int64_t epoch, int64_t batch_in_epoch) const;

  std::shared_ptr<const Dataset> dataset_;
  Options options_;
  int64_t batches_per_epoch_;
};

}  // namespace composer
