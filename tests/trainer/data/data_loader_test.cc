// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>

namespace composer {
namespace {

using ::testing::HasSubstr;

// Sample i is the number i.
class Counting final : public Dataset {
 public:
  explicit Counting(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch;
    batch.num_samples = static_cast<int64_t>(indices.size());
    batch.inputs = torch::empty({batch.num_samples}, torch::kInt64);
    for (size_t i = 0; i < indices.size(); ++i) batch.inputs[static_cast<int64_t>(i)] = indices[i];
    return batch;
  }

 private:
  int64_t size_;
};

class Broken final : public Dataset {
 public:
  enum class How { kTorchError, kStdError, kWrongCount };
  explicit Broken(How how) : how_(how) {}
  int64_t size() const override { return 8; }
  Batch Load(absl::Span<const int64_t> indices) const override {
    if (how_ == How::kTorchError) TORCH_CHECK_VALUE(false, "sample ", indices[0], " is corrupt");
    if (how_ == How::kStdError) throw std::runtime_error("sample is corrupt");
    return Batch{};
  }

 private:
  How how_;
};

std::string ValueErrorOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "";
}

std::vector<int64_t> GlobalIds(int world, int64_t epoch, int64_t n, bool shuffle) {
  std::vector<int64_t> ids;
  for (int rank = 0; rank < world; ++rank) {
    LoaderOptions options;
    options.global_batch_size = 16;
    options.shuffle = shuffle;
    options.seed = 5;
    options.rank = rank;
    options.world_size = world;
    DataLoader loader(std::make_shared<Counting>(100), options);
    const Batch batch = loader.Load(epoch, n * options.global_batch_size).batch;
    EXPECT_EQ(batch.num_samples, static_cast<int64_t>(batch.sample_ids.size()));
    for (int64_t i = 0; i < batch.num_samples; ++i) EXPECT_EQ(batch.inputs[i].item<int64_t>(), batch.sample_ids[i]);
    ids.insert(ids.end(), batch.sample_ids.begin(), batch.sample_ids.end());
  }
  return ids;
}

TEST(DataLoader, AnyNumberOfRanksSeesTheSameBatches) {
  for (int64_t epoch : {0, 1}) {
    std::vector<int64_t> all;
    for (int64_t n = 0; n < 7; ++n) {
      const std::vector<int64_t> one = GlobalIds(1, epoch, n, true);
      EXPECT_EQ(one.size(), n < 6 ? 16u : 4u);
      EXPECT_EQ(GlobalIds(2, epoch, n, true), one);
      EXPECT_EQ(GlobalIds(3, epoch, n, true), one);
      EXPECT_EQ(GlobalIds(16, epoch, n, true), one);  // with 4 samples most ranks get none
      all.insert(all.end(), one.begin(), one.end());
    }
    EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
    std::sort(all.begin(), all.end());
    std::vector<int64_t> expected(100);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
  EXPECT_NE(GlobalIds(1, 0, 0, true), GlobalIds(1, 1, 0, true));
  EXPECT_EQ(GlobalIds(1, 1, 1, false)[0], 16);
}

TEST(DataLoader, CountsBatches) {
  LoaderOptions options;
  options.global_batch_size = 16;
  const auto data = std::make_shared<Counting>(100);
  EXPECT_EQ(DataLoader(data, options).batches_per_epoch(), 7);
  EXPECT_EQ(DataLoader(data, options).SamplesAt(5 * 16), 16);
  EXPECT_EQ(DataLoader(data, options).SamplesAt(6 * 16), 4);
  EXPECT_EQ(DataLoader(data, options).SamplesAt(100), 0);
  options.drop_last = true;
  EXPECT_EQ(DataLoader(data, options).batches_per_epoch(), 6);
  options.subset_num_batches = 2;
  EXPECT_EQ(DataLoader(data, options).batches_per_epoch(), 2);
  EXPECT_EQ(DataLoader(data, options).SamplesAt(16), 16);
  EXPECT_EQ(DataLoader(data, options).SamplesAt(32), 0);
  options.subset_num_batches = 50;
  EXPECT_EQ(DataLoader(data, options).batches_per_epoch(), 6);
}

TEST(DataLoader, RefusesWhatCannotWork) {
  const auto make = [](int64_t size, LoaderOptions options) {
    return ValueErrorOf([&] { DataLoader(std::make_shared<Counting>(size), options); });
  };
  LoaderOptions options;
  options.global_batch_size = 2;
  options.world_size = 3;
  EXPECT_EQ(make(10, options),
            "train loader: too many ranks for the batch: global_train_batch_size is 2, but there are 3 ranks (world "
            "size); each needs at least one sample: raise global_train_batch_size or start fewer ranks");
  options = {};
  EXPECT_EQ(make(0, options), "train loader: the dataset is empty");
  options.global_batch_size = 0;
  EXPECT_THAT(make(10, options), HasSubstr("at least 1, got 0"));
  options.global_batch_size = 20;
  options.drop_last = true;
  EXPECT_THAT(make(10, options), HasSubstr("drop_last leaves no batch"));
  options.drop_last = false;
  options.subset_num_batches = 0;
  EXPECT_THAT(make(10, options), HasSubstr("train_subset_num_batches"));
}

TEST(DataLoader, NamesWhereReadingFailed) {
  const auto load = [](Broken::How how) -> std::string {
    LoaderOptions options;
    options.global_batch_size = 4;
    DataLoader loader(std::make_shared<Broken>(how), options);
    try {
      loader.Load(3, 4);
    } catch (const c10::Error& error) {
      EXPECT_EQ(dynamic_cast<const c10::ValueError*>(&error) != nullptr, how == Broken::How::kTorchError);
      return error.what_without_backtrace();
    }
    return "";
  };
  EXPECT_THAT(load(Broken::How::kTorchError), HasSubstr("sample 4 is corrupt"));
  EXPECT_THAT(load(Broken::How::kTorchError), HasSubstr("train loader, epoch 3, batch 1"));
  EXPECT_EQ(load(Broken::How::kStdError), "train loader, epoch 3, batch 1, samples 4, 5, 6, 7 (4): sample is corrupt");
  EXPECT_THAT(load(Broken::How::kWrongCount), HasSubstr("the size of the batch is unknown"));
  EXPECT_THAT(load(Broken::How::kWrongCount), HasSubstr("set Batch::num_samples in the dataset's Load"));
}

// An epoch goes on with another batch size after exactly the samples that were trained on.
TEST(DataLoader, AnotherBatchSizeInMidEpochRepeatsAndSkipsNothing) {
  const auto data = std::make_shared<Counting>(100);
  LoaderOptions options;
  options.shuffle = true;
  std::vector<int64_t> all;
  int64_t at = 0;
  for (const int64_t size : {16, 7, 33, 100}) {
    options.global_batch_size = size;
    const LoadedBatch loaded = DataLoader(data, options).Load(2, at);
    EXPECT_EQ(loaded.global_samples, std::min(size, 100 - at));
    at += loaded.global_samples;
    all.insert(all.end(), loaded.batch.sample_ids.begin(), loaded.batch.sample_ids.end());
  }
  EXPECT_EQ(at, 100);
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

class Reversed final : public SampleOrder {
 public:
  int64_t size() const override { return 10; }
  void Read(int64_t epoch, int64_t begin, absl::Span<int64_t> ids) const override {
    for (int64_t& id : ids) id = 9 - begin++ + 10 * epoch;
  }
};

TEST(DataLoader, AnOrderDecidesWhatAnEpochServes) {
  LoaderOptions options;
  options.global_batch_size = 4;
  options.order = std::make_shared<Reversed>();
  DataLoader loader(std::make_shared<Counting>(100), options);
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  EXPECT_THAT(loader.Load(0, 8).batch.sample_ids, testing::ElementsAre(1, 0));
  EXPECT_THAT(loader.Load(1, 0).batch.sample_ids, testing::ElementsAre(19, 18, 17, 16));
}

// Hears what will be loaded.
class Listening final : public Dataset {
 public:
  int64_t size() const override { return 20; }
  Batch Load(absl::Span<const int64_t> indices) const override { return Counting(20).Load(indices); }
  void WillLoad(int64_t epoch, absl::Span<const int64_t> indices) const override {
    for (const int64_t index : indices) heard.push_back(100 * epoch + index);
  }
  mutable std::vector<int64_t> heard;
};

TEST(DataLoader, ADatasetHearsOnceWhatThisRankWillLoad) {
  const auto data = std::make_shared<Listening>();
  LoaderOptions options;
  options.global_batch_size = 4;
  options.predownload = 8;
  options.rank = 1;
  options.world_size = 2;
  DataLoader loader(data, options);
  loader.Load(0, 0);
  EXPECT_THAT(data->heard, testing::ElementsAre(2, 3, 6, 7));
  loader.Load(0, 4);
  EXPECT_THAT(data->heard, testing::ElementsAre(2, 3, 6, 7, 10, 11));
  for (const int64_t at : {8, 12, 16}) loader.Load(0, at);
  EXPECT_THAT(data->heard, testing::ElementsAre(2, 3, 6, 7, 10, 11, 14, 15, 18, 19));
  loader.Load(1, 4);
  EXPECT_THAT(absl::MakeSpan(data->heard).subspan(10), testing::ElementsAre(106, 107, 110, 111));
}

// A stream of three samples that begins again when it is asked after its end.
class Forgetful final : public IterableDataset {
 public:
  std::unique_ptr<SampleStream> Open(int64_t /*epoch*/) const override { return std::make_unique<Pass>(); }
  Batch Collate(int64_t /*epoch*/, std::vector<Sample> samples) const override {
    Batch batch;
    batch.num_samples = static_cast<int64_t>(samples.size());
    batch.inputs = torch::zeros({batch.num_samples, 1});
    return batch;
  }

 private:
  class Pass final : public SampleStream {
   public:
    bool Next(Sample& sample) override {
      if (next_ == 3) {
        next_ = 0;
        return false;
      }
      sample.id = next_++;
      return true;
    }

   private:
    int64_t next_ = 0;
  };
};

TEST(StreamLoader, AnEpochEndsWhereTheStreamFirstEnds) {
  LoaderOptions options;
  options.global_batch_size = 2;
  const auto loader = MakeLoader(std::make_shared<Forgetful>(), options);
  EXPECT_EQ(loader->Load(0, 0).global_samples, 2);
  EXPECT_EQ(loader->Load(0, 2).global_samples, 1);
  EXPECT_EQ(loader->Load(0, 3).global_samples, 0);
  EXPECT_EQ(loader->Load(0, 3).global_samples, 0);
  EXPECT_EQ(loader->Load(1, 0).global_samples, 2);
}

}  // namespace
}  // namespace composer
