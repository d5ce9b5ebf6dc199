// Random lives of a run's data: killed and resumed at any batch, on other numbers of ranks and threads, with another
// mixture and another global batch in mid-epoch. Whatever comes, each sample is served once in each pass, in the order
// of a run that was never disturbed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "trainer/data/length_buckets.h"
#include "trainer/data/mix_source.h"
#include "trainer/data/prefetcher.h"
#include "trainer/data/prepared_dataset.h"

namespace composer {
namespace {

class CountedSamples final : public SampleSource {
 public:
  explicit CountedSamples(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Sample Get(int64_t index) const override {
    Sample sample;
    sample.tensors["inputs"] = torch::tensor(index);
    return sample;
  }

 private:
  const int64_t size_;
};

// What a user may change between two starts.
struct Settings {
  std::vector<double> weights;
  std::vector<MixtureChange> changes;
  int64_t global_batch = 1;
  int ranks = 1, threads = 0;
};

class Life {
 public:
  explicit Life(uint64_t seed) : random_(seed), seed_(seed) {
    const int64_t sources = Draw(1, 3);
    for (int64_t i = 0; i < sources; ++i) {
      sizes_.push_back(Draw(1, 40));
      settings_.weights.push_back(static_cast<double>(Draw(1, 20)) / 10);
    }
    bucketed_ = Draw(0, 3) == 0;
    shuffle_ = Draw(0, 4) > 0;
    epochs_ = Draw(1, 3);
  }

  void Run() {
    const int64_t epoch_size = Dataset()->size();
    while (!HasFatalFailure() && epoch_ < epochs_) Live(epoch_size);
    if (HasFatalFailure()) return;
    CheckPasses();
  }

 private:
  static bool HasFatalFailure() { return testing::Test::HasFatalFailure(); }
  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  std::shared_ptr<const composer::Dataset> Dataset() const {
    std::vector<MixedSource> sources;
    for (size_t i = 0; i < sizes_.size(); ++i)
      sources.push_back({.source = std::make_shared<CountedSamples>(sizes_[i]), .weight = settings_.weights[i]});
    std::shared_ptr<const SampleSource> source =
        *MixSources(std::move(sources), {.changes = settings_.changes, .seed = seed_});
    if (bucketed_) source = WithLengthBuckets(source, {.window = 13, .size = 3});
    return PrepareSamples(source, {.seed = seed_});
  }

  LoaderOptions OptionsOf(int rank, int ranks) const {
    return {.global_batch_size = settings_.global_batch,
            .shuffle = shuffle_,
            .seed = seed_,
            .rank = rank,
            .world_size = ranks};
  }

  // One start: some batches, then a kill.
  void Live(int64_t epoch_size) {
    settings_.ranks = static_cast<int>(Draw(1, 16));
    settings_.threads = Draw(0, 2) == 0 ? static_cast<int>(Draw(1, 8)) : 0;
    if (Draw(0, 2) == 0 || settings_.global_batch < settings_.ranks)
      settings_.global_batch = Draw(settings_.ranks, settings_.ranks + 20);
    const int64_t now = epoch_ * epoch_size + sample_;
    if (!bucketed_ && Draw(0, 2) == 0 && now > (settings_.changes.empty() ? 0 : settings_.changes.back().at)) {
      settings_.changes.push_back({now, {}});
      for (size_t i = 0; i < sizes_.size(); ++i)
        settings_.changes.back().weights.push_back(static_cast<double>(Draw(1, 20)) / 10);
    }
    const auto dataset = Dataset();
    std::vector<std::unique_ptr<Prefetcher>> ranks;
    for (int rank = 0; rank < settings_.ranks; ++rank)
      ranks.push_back(
          std::make_unique<Prefetcher>(std::make_shared<DataLoader>(dataset, OptionsOf(rank, settings_.ranks)),
                                       PrefetchOptions{.num_workers = rank < 2 ? settings_.threads : 0}, epochs_));
    DataLoader undisturbed(dataset, OptionsOf(0, 1));
    for (int64_t batches = Draw(0, 12); batches > 0 && epoch_ < epochs_; --batches) {
      ASSERT_NO_FATAL_FAILURE(ServeBatch(ranks, undisturbed)) << "schedule " << seed_;
      if (undisturbed.SamplesAt(sample_) > 0) continue;
      ++epoch_;
      sample_ = 0;
    }
  }

  void ServeBatch(const std::vector<std::unique_ptr<Prefetcher>>& ranks, DataLoader& undisturbed) {
    const LoadedBatch expected = undisturbed.Load(epoch_, sample_);
    std::vector<int64_t> ids;
    for (const auto& rank : ranks) {
      const LoadedBatch loaded = rank->Load(epoch_, sample_);
      ASSERT_EQ(loaded.global_samples, expected.global_samples);
      ids.insert(ids.end(), loaded.batch.sample_ids.begin(), loaded.batch.sample_ids.end());
    }
    ASSERT_EQ(ids, expected.batch.sample_ids) << "the batch is the same for any number of ranks and threads";
    served_.insert(served_.end(), ids.begin(), ids.end());
    sample_ += expected.global_samples;
  }

  // Of each source, every pass has each sample once; the last may be unfinished.
  void CheckPasses() const {
    int64_t begin = 0, epoch_size = 0;
    for (const int64_t size : sizes_) epoch_size += size;
    ASSERT_EQ(static_cast<int64_t>(served_.size()), epochs_ * epoch_size);
    for (const int64_t size : sizes_) {
      std::vector<int64_t> own;
      for (const int64_t id : served_) {
        if (id >= begin && id < begin + size) own.push_back(id - begin);
      }
      if (bucketed_) {  // buckets move samples over the ends of a source's passes, but not out of the window
        begin += size;
        continue;
      }
      std::vector<int64_t> pass_of(static_cast<size_t>(size), 0);
      for (size_t i = 0; i < own.size(); ++i)
        ASSERT_EQ(pass_of[static_cast<size_t>(own[i])]++, static_cast<int64_t>(i) / size) << "schedule " << seed_;
      begin += size;
    }
    if (bucketed_ && sizes_.size() == 1) {
      for (int64_t epoch = 0; epoch < epochs_; ++epoch) {
        std::vector<int64_t> ids(served_.begin() + epoch * epoch_size, served_.begin() + (epoch + 1) * epoch_size);
        std::sort(ids.begin(), ids.end());
        for (int64_t i = 0; i < epoch_size; ++i) ASSERT_EQ(ids[static_cast<size_t>(i)], i) << "schedule " << seed_;
      }
    }
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  std::vector<int64_t> sizes_;  // of the sources
  bool bucketed_ = false, shuffle_ = true;
  int64_t epochs_ = 1;
  Settings settings_;
  // The run's state: all that a checkpoint keeps.
  int64_t epoch_ = 0, sample_ = 0;
  std::vector<int64_t> served_;
};

void RunSchedules(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count && !testing::Test::HasFatalFailure(); ++seed) Life(seed).Run();
}

TEST(DataOfARun, TwoHundredSchedules) { RunSchedules(0, 200); }
TEST(DataOfARun, DISABLED_TenThousandSchedules) { RunSchedules(1000, 10'000); }

}  // namespace
}  // namespace composer
