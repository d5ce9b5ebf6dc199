#include "trainer/data/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

using testing::HasSubstr;

class Numbers final : public Dataset {
 public:
  int64_t size() const override { return 20; }
  Batch Load(absl::Span<const int64_t> indices) const override {
    ++loads;
    for (const int64_t index : indices) {
      TORCH_CHECK(index != corrupt, "sample ", index, " is corrupt");
      if (index == hanging) never->WaitForNotification();
    }
    Batch batch;
    batch.inputs = torch::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()));
    return batch;
  }
  int64_t corrupt = -1, hanging = -1;
  std::shared_ptr<absl::Notification> never = std::make_shared<absl::Notification>();
  mutable std::atomic<int> loads{0};
};

std::shared_ptr<DataLoader> Loader(std::shared_ptr<Numbers> data) {
  LoaderOptions options;
  options.global_batch_size = 4;  // 5 batches per epoch
  options.shuffle = true;
  options.seed = 3;
  return std::make_shared<DataLoader>(std::move(data), options);
}

TEST(Prefetcher, GivesWhatTheLoaderGivesInAnyOrderOfQuestions) {
  const auto loader = Loader(std::make_shared<Numbers>());
  for (const int workers : {0, 1, 3}) {
    Prefetcher prefetcher(loader, {.num_workers = workers});
    const std::pair<int, int> asked[] = {{0, 2}, {0, 3}, {0, 4}, {1, 0}, {1, 1},
                                         {0, 0}, {0, 1}, {7, 4}, {8, 0}, {8, 0}};
    for (const auto& [epoch, n] : asked) {
      const Batch batch = prefetcher.Load(epoch, 4 * n).batch;
      EXPECT_EQ(batch.sample_ids, loader->Load(epoch, 4 * n).batch.sample_ids) << workers << " " << epoch << " " << n;
      EXPECT_EQ(batch.num_samples, 4);
    }
  }
}

TEST(Prefetcher, LoadsNoFurtherAheadThanAsked) {
  const auto data = std::make_shared<Numbers>();
  {
    Prefetcher prefetcher(Loader(data), {.num_workers = 2, .prefetch_factor = 3});
    prefetcher.Load(0, 0);
  }
  EXPECT_LE(data->loads, 1 + 2 * 3 + 1);
}

TEST(Prefetcher, LoadsNothingOfAnEpochThatNeverComes) {
  const auto data = std::make_shared<Numbers>();
  {
    Prefetcher prefetcher(Loader(data), {.num_workers = 2, .prefetch_factor = 3}, /*num_epochs=*/1);
    for (int times = 0; times < 2; ++times) {
      for (int n = 0; n < 5; ++n) EXPECT_EQ(prefetcher.Load(0, 4 * n).batch.num_samples, 4);
    }
  }
  EXPECT_EQ(data->loads, 10);
}

TEST(Prefetcher, AnErrorComesWithItsBatchAndOnlyThen) {
  const auto data = std::make_shared<Numbers>();
  const auto loader = Loader(data);
  data->corrupt = loader->Load(0, 8).batch.sample_ids[1];
  Prefetcher prefetcher(loader, {.num_workers = 2});
  EXPECT_NO_THROW(prefetcher.Load(0, 0));
  EXPECT_NO_THROW(prefetcher.Load(0, 4));
  try {
    prefetcher.Load(0, 8);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("is corrupt"));
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("train loader, epoch 0, batch 2"));
  }
  EXPECT_NO_THROW(prefetcher.Load(0, 12)) << "one bad batch is one bad batch";
}

TEST(Prefetcher, ADatasetThatHangsIsAnErrorThatNamesTheBatch) {
  const auto data = std::make_shared<Numbers>();
  const auto loader = Loader(data);
  data->hanging = loader->Load(0, 4).batch.sample_ids[0];
  {
    Prefetcher prefetcher(loader, {.num_workers = 1, .timeout = absl::Milliseconds(50)});
    prefetcher.Load(0, 0);
    try {
      prefetcher.Load(0, 4);
      FAIL();
    } catch (const StatusError& error) {
      EXPECT_EQ(error.status().code(), absl::StatusCode::kDeadlineExceeded);
      EXPECT_THAT(error.what(), HasSubstr("train loader, epoch 0, batch 1: no batch after 50ms"));
      EXPECT_THAT(error.what(), HasSubstr(std::to_string(data->hanging)));
      EXPECT_THAT(error.what(), HasSubstr("train_dataloader.timeout"));
    }
  }
  data->never->Notify();  // lets the thread that was left behind end
}

TEST(Prefetcher, ATimeoutNeedsAThread) {
  EXPECT_THROW(Prefetcher(Loader(std::make_shared<Numbers>()), {.timeout = absl::Seconds(1)}), c10::ValueError);
}

// Counts 0, 1, … up to a number that differs by epoch; can resume at a place if told to.
class Endings final : public IterableDataset {
 public:
  explicit Endings(bool has_places = false) : has_places_(has_places) {}
  std::unique_ptr<SampleStream> Open(int64_t epoch) const override {
    ++opened;
    return std::make_unique<Stream>(*this, 10 + epoch);
  }
  Batch Collate(int64_t /*epoch*/, std::vector<Sample> samples) const override {
    std::vector<at::Tensor> rows;
    for (const Sample& sample : samples) rows.push_back(sample.tensors.at("inputs"));
    Batch batch;
    batch.inputs = torch::stack(rows);
    return batch;
  }
  mutable std::atomic<int> opened{0}, read{0};

 private:
  class Stream final : public SampleStream {
   public:
    Stream(const Endings& data, int64_t end) : data_(data), end_(end) {}
    bool Next(Sample& sample) override {
      if (next_ == end_) return false;
      ++data_.read;
      sample.tensors["inputs"] = torch::tensor(next_++);
      return true;
    }
    std::string Place() const override { return data_.has_places_ ? std::to_string(next_) : ""; }
    void Seek(const std::string& place) override {
      if (!data_.has_places_) return SampleStream::Seek(place);
      next_ = std::stoll(place);
    }

   private:
    const Endings& data_;
    int64_t next_ = 0, end_;
  };
  bool has_places_;
};

std::shared_ptr<StreamLoader> StreamOf(std::shared_ptr<const Dataset> data, int rank = 0, int world = 1) {
  LoaderOptions options;
  options.global_batch_size = 4;
  options.rank = rank;
  options.world_size = world;
  return std::make_shared<StreamLoader>(std::move(data), options);
}

std::vector<int64_t> Values(const Batch& batch) {
  const at::Tensor rows = batch.inputs.contiguous();
  return {rows.data_ptr<int64_t>(), rows.data_ptr<int64_t>() + rows.numel()};
}

// Returns two epochs' samples of all ranks, each batch in rank order.
std::vector<int64_t> TwoEpochs(int world, int workers) {
  std::vector<std::unique_ptr<Prefetcher>> ranks;
  for (int rank = 0; rank < world; ++rank)
    ranks.push_back(std::make_unique<Prefetcher>(StreamOf(std::make_shared<Endings>(), rank, world),
                                                 PrefetchOptions{.num_workers = workers}));
  std::vector<int64_t> all;
  for (int64_t epoch = 0, at = 0; epoch < 2;) {
    int64_t samples = 0;
    for (const auto& rank : ranks) {
      const LoadedBatch loaded = rank->Load(epoch, at);
      samples = loaded.global_samples;
      if (samples == 0) break;
      EXPECT_EQ(loaded.batch.num_samples, loaded.batch.inputs.size(0)) << "also of a rank without a sample";
      const std::vector<int64_t> own = Values(loaded.batch);
      all.insert(all.end(), own.begin(), own.end());
    }
    at = samples == 0 ? 0 : at + samples;
    epoch += samples == 0;
  }
  return all;
}

TEST(StreamLoader, AnyNumberOfRanksAndThreadsSeesTheSameBatches) {
  std::vector<int64_t> expected;
  for (const int64_t size : {10, 11}) {
    for (int64_t i = 0; i < size; ++i) expected.push_back(i);
  }
  for (const int world : {1, 2, 3, 4}) {
    for (const int workers : {0, 1, 3}) EXPECT_EQ(TwoEpochs(world, workers), expected) << world << " " << workers;
  }
}

TEST(StreamLoader, ReadsOnAndOpensAgainOnlyAfterAJump) {
  const auto data = std::make_shared<Endings>();
  const auto loader = StreamOf(data);
  loader->Load(0, 0);
  EXPECT_EQ(Values(loader->Load(0, 4).batch)[0], 4);
  EXPECT_EQ(data->opened, 1);
  EXPECT_EQ(Values(loader->Load(0, 0).batch)[0], 0);
  EXPECT_EQ(Values(loader->Load(0, 8).batch), (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(data->opened, 3);
  EXPECT_EQ(loader->Load(0, 10).global_samples, 0);
  EXPECT_EQ(data->opened, 3);
}

TEST(StreamLoader, ResumesAtItsPlaceWithoutReadingWhatCameBefore) {
  const std::string place = StreamOf(std::make_shared<Endings>(true))->Load(1, 0).place;
  const auto data = std::make_shared<Endings>(true);
  const auto loader = StreamOf(data);
  loader->Resume(1, 4, place);
  EXPECT_EQ(Values(loader->Load(1, 4).batch), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(data->read, 4);
  EXPECT_EQ(Values(loader->Load(0, 4).batch)[0], 4) << "another epoch is read from its beginning";
  const auto placeless = StreamOf(std::make_shared<Endings>());
  placeless->Resume(1, 4, place);
  EXPECT_THROW(placeless->Load(1, 4), c10::Error) << "the data is not what the checkpoint was trained on";
}

TEST(StreamLoader, ASubsetAndDropLastEndAnEpochEarly) {
  LoaderOptions options;
  options.global_batch_size = 4;
  options.drop_last = true;
  StreamLoader whole(std::make_shared<Endings>(), options);
  EXPECT_EQ(whole.batches_per_epoch(), 0);
  EXPECT_EQ(whole.Load(0, 4).global_samples, 4);
  EXPECT_EQ(whole.Load(0, 8).global_samples, 0);
  options.subset_num_batches = 1;
  StreamLoader part(std::make_shared<Endings>(), options);
  EXPECT_EQ(part.batches_per_epoch(), 1);
  EXPECT_EQ(part.SamplesAt(4), 0);
  EXPECT_EQ(part.Load(0, 4).global_samples, 0);
}

}  // namespace
}  // namespace composer
