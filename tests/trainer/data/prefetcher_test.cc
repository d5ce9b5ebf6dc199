#include "trainer/data/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

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

std::shared_ptr<const DataLoader> Loader(std::shared_ptr<Numbers> data) {
  DataLoader::Options options;
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
      const Batch batch = prefetcher.Load(epoch, n);
      EXPECT_EQ(batch.sample_ids, loader->Load(epoch, n).sample_ids) << workers << " " << epoch << " " << n;
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
      for (int n = 0; n < 5; ++n) EXPECT_EQ(prefetcher.Load(0, n).num_samples, 4);
    }
  }
  EXPECT_EQ(data->loads, 10);
}

TEST(Prefetcher, AnErrorComesWithItsBatchAndOnlyThen) {
  const auto data = std::make_shared<Numbers>();
  const auto loader = Loader(data);
  data->corrupt = loader->Load(0, 2).sample_ids[1];
  Prefetcher prefetcher(loader, {.num_workers = 2});
  EXPECT_NO_THROW(prefetcher.Load(0, 0));
  EXPECT_NO_THROW(prefetcher.Load(0, 1));
  try {
    prefetcher.Load(0, 2);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("is corrupt"));
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("train loader, epoch 0, batch 2"));
  }
  EXPECT_NO_THROW(prefetcher.Load(0, 3)) << "one bad batch is one bad batch";
}

TEST(Prefetcher, ADatasetThatHangsIsAnErrorThatNamesTheBatch) {
  const auto data = std::make_shared<Numbers>();
  const auto loader = Loader(data);
  data->hanging = loader->Load(0, 1).sample_ids[0];
  {
    Prefetcher prefetcher(loader, {.num_workers = 1, .timeout = absl::Milliseconds(50)});
    prefetcher.Load(0, 0);
    try {
      prefetcher.Load(0, 1);
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

}  // namespace
}  // namespace composer
