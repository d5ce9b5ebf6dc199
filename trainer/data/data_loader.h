// A rank's share of each global batch, read on the calling thread. It has no position of its own: what to load is an
// argument, so there is nothing to save or to rewind. Which samples: sample_order.h.
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

class DataLoader {
 public:
  struct Options {
    std::string label = "train";    // in messages
    int64_t global_batch_size = 1;  // samples over all ranks, at least world_size
    bool shuffle = false;           // a new order each epoch
    bool drop_last = false;         // leave out a short last batch
    uint64_t seed = 0;
    int rank = 0;
    int world_size = 1;
    int64_t subset_num_batches = -1;  // end each epoch after so many batches; -1: all
    // What of a batch of `count` samples this rank reads, in this order; null: RankShare.
    std::function<std::vector<SampleRange>(int64_t count)> share;
  };

  // Throws c10::ValueError: no samples; fewer samples in a batch than ranks; no batch in an epoch.
  DataLoader(std::shared_ptr<const Dataset> dataset, Options options);

  const std::string& label() const { return options_.label; }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  // Samples of a batch over all ranks.
  int64_t global_samples(int64_t batch_in_epoch) const;
  // This rank's share, which has 0 samples when a short last batch has fewer samples than there are ranks. Fills
  // sample_ids. A dataset's c10::Error comes through with the loader's label, epoch and batch added; any other
  // exception becomes one. batch_in_epoch must be in [0, batches_per_epoch).
  Batch Load(int64_t epoch, int64_t batch_in_epoch) const;
  // For messages: up to `count` of the samples that Load would read.
  std::vector<int64_t> FirstSamples(int64_t epoch, int64_t batch_in_epoch, int64_t count) const;

 private:
  std::vector<int64_t> SampleIds(int64_t epoch, int64_t batch_in_epoch) const;

  std::shared_ptr<const Dataset> dataset_;
  Options options_;
  int64_t batches_per_epoch_;
};

}  // namespace composer
