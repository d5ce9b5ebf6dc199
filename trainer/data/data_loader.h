// Loaders read a rank's share of each global batch on the calling thread: DataLoader by index, StreamLoader from
// samples that can only be read in order. What to load is an argument, so there is nothing to rewind. Source: replaces
// torch's DataLoader, DistributedSampler and Composer's DataSpec (composer/core/data_spec.py). SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/core/batch.h"
#include "trainer/core/dataset.h"
#include "trainer/data/sample_order.h"

namespace composer {

struct LoaderOptions {
  std::string label = "train";    // in messages
  int64_t global_batch_size = 1;  // samples over all ranks, at least world_size
  bool shuffle = false;           // a new order each epoch; a stream has its own
  bool drop_last = false;         // drops a short last batch
  uint64_t seed = 0;
  int rank = 0;
  int world_size = 1;
  int64_t subset_num_batches = -1;  // ends each epoch after this many batches; -1 means all
  // The parts of a batch of `count` samples that this rank reads, in this order. Null means RankShare.
  std::function<std::vector<SampleRange>(int64_t count)> share;
  std::shared_ptr<const SampleOrder> order;  // null: the dataset's own, or if it has none, by `shuffle`
  int64_t predownload = 0;                   // samples of the epoch ahead of a batch that Dataset::WillLoad hears of
  DataSpec spec;
};

// Returns what an order for this loader may depend on.
OrderRequest OrderRequestOf(const Dataset& dataset, const LoaderOptions& options);

class DataLoader final : public Loader {
 public:
  using Options = LoaderOptions;

  // Throws c10::ValueError when there are no samples, fewer samples in a batch than ranks, or no batch in an epoch.
  DataLoader(std::shared_ptr<const Dataset> dataset, Options options);

  const Dataset& dataset() const override { return *dataset_; }
  const DataSpec& spec() const override { return options_.spec; }
  const std::string& label() const override { return options_.label; }
  int64_t batches_per_epoch() const override { return batches_per_epoch_; }
  int64_t global_batch_size() const override { return options_.global_batch_size; }
  int64_t SamplesAt(int64_t sample_in_epoch) const override;
  // Fills sample_ids. A dataset's c10::Error is rethrown with the loader's label, epoch and batch added; any other
  // exception becomes such an error.
  LoadedBatch Load(int64_t epoch, int64_t sample_in_epoch) override;
  std::string Describe(int64_t epoch, int64_t sample_in_epoch) const override;

 private:
  std::vector<int64_t> SampleIds(int64_t epoch, int64_t begin) const;
  void Announce(int64_t epoch, int64_t begin);

  const std::shared_ptr<const Dataset> dataset_;
  Options options_;
  int64_t end_;  // samples an epoch serves, but for a short last batch that is dropped
  int64_t batches_per_epoch_;
  absl::Mutex mutex_;
  int64_t announced_epoch_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t announced_ ABSL_GUARDED_BY(mutex_) = 0;  // the batches of that epoch before this sample were announced
};

class StreamLoader final : public Loader {
 public:
  // `dataset` must be an IterableDataset. Throws as DataLoader does.
  StreamLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);

  const Dataset& dataset() const override { return *dataset_; }
  const DataSpec& spec() const override { return options_.spec; }
  const std::string& label() const override { return options_.label; }
  int64_t batches_per_epoch() const override { return std::max<int64_t>(0, options_.subset_num_batches); }
  int64_t global_batch_size() const override { return options_.global_batch_size; }
  int64_t SamplesAt(int64_t sample_in_epoch) const override;
  // Reads on from the last call where it can, else opens the stream again: at the place that Resume gave, or by passing
  // over the samples before. One caller at a time reads; others wait.
  LoadedBatch Load(int64_t epoch, int64_t sample_in_epoch) override;
  void Resume(int64_t epoch, int64_t sample_in_epoch, const std::string& place) override;
  std::string Describe(int64_t epoch, int64_t sample_in_epoch) const override;

 private:
  void Open(int64_t epoch, int64_t sample_in_epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Batch OwnShare(int64_t epoch, std::vector<Sample> samples) const;

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  absl::Mutex mutex_;
  std::unique_ptr<SampleStream> stream_ ABSL_GUARDED_BY(mutex_);
  int64_t epoch_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;    // the sample of the epoch that the stream gives next
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the stream has said so, and is not asked again
  // From a checkpoint.
  int64_t place_epoch_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t place_sample_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string place_ ABSL_GUARDED_BY(mutex_);
};

std::shared_ptr<Loader> MakeLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);

// Returns `count` samples of epoch 0 in the dataset's own order, from the beginning again where there are fewer.
Batch FirstSamples(const Dataset& dataset, int64_t count);

}  // namespace composer
