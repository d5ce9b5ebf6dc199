// Tests when the loop saves, and from what it refuses to resume.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainerOptions Saving(const TempDir& folder, Time interval = Time::Epochs(1)) {
  TrainerOptions options = SmallRun();
  options.save.save_folder = folder.path();
  options.save.save_interval = interval;
  return options;
}

std::vector<std::string> SavedWith(Time interval, Time max_duration) {
  const TempDir folder;
  TrainerOptions options = Saving(folder, interval);
  options.train.dataset = MakeRows(40, 8, 4, /*tokens_per_sample=*/10);
  options.max_duration = max_duration;
  EXPECT_TRUE(Train(std::move(options)).status.ok());
  return Checkpoints(folder.path());
}

TEST(Checkpoints, IntervalInEveryUnitAndOnceAtTheEnd) {
  EXPECT_THAT(SavedWith(Time::Epochs(1), Time::Epochs(2)), ElementsAre("ep1-ba5", "ep2-ba10"));
  EXPECT_THAT(SavedWith(Time::Epochs(2), Time::Epochs(3)), ElementsAre("ep2-ba10", "ep3-ba15"));
  EXPECT_THAT(SavedWith(Time::Batches(4), Time::Epochs(2)), ElementsAre("ep0-ba4", "ep1-ba8", "ep2-ba10"));
  EXPECT_THAT(SavedWith(Time::Batches(5), Time::Epochs(2)), ElementsAre("ep0-ba5", "ep1-ba10"));
  EXPECT_THAT(SavedWith(Time::Samples(30), Time::Batches(7)), ElementsAre("ep0-ba4", "ep1-ba7"));
  EXPECT_THAT(SavedWith(Time::Samples(30), Time::Batches(8)), ElementsAre("ep0-ba4", "ep1-ba8"));
  EXPECT_THAT(SavedWith(Time::Tokens(200), Time::Batches(6)), ElementsAre("ep0-ba3", "ep0-ba5", "ep1-ba6"));
  EXPECT_THAT(SavedWith(Time::Duration(0.5), Time::Batches(9)), ElementsAre("ep0-ba5", "ep1-ba9"));
  // At the end of an epoch the save comes after its EPOCH_END, where algorithms make their last changes.
  EXPECT_THAT(SavedWith(Time::Duration(0.5), Time::Epochs(2)), ElementsAre("ep1-ba5", "ep2-ba10"));
  EXPECT_THAT(SavedWith(Time::Duration(1), Time::Epochs(2)), ElementsAre("ep2-ba10"));
  EXPECT_THAT(SavedWith(Time::Duration(0.25), Time::Epochs(2)),
              ElementsAre("ep0-ba3", "ep1-ba6", "ep1-ba9", "ep2-ba10"));
  EXPECT_THAT(SavedWith(Time::Batches(0), Time::Epochs(2)), ElementsAre("ep2-ba10")) << "only at the end";
}

TEST(Checkpoints, KeepTheNewest) {
  const TempDir folder;
  TrainerOptions options = Saving(folder, Time::Batches(3));
  options.save.save_num_checkpoints_to_keep = 2;
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_THAT(Checkpoints(folder.path()), ElementsAre("ep1-ba9", "ep2-ba10"));
}

TEST(Checkpoints, NoFolderNoCheckpoints) {
  TrainerOptions options = SmallRun();
  options.save.save_interval = Time::Batches(1);
  EXPECT_TRUE(Train(std::move(options)).status.ok());
}

TEST(Checkpoints, WithoutAutoresumeARunStartsFresh) {
  const TempDir folder;
  ASSERT_TRUE(Train(Saving(folder)).status.ok());
  TrainerOptions options = Saving(folder);
  options.save.autoresume = false;
  const RunResult fresh = Train(std::move(options));
  ASSERT_TRUE(fresh.status.ok()) << fresh.status;
  EXPECT_EQ(fresh.resumed_from, "");
  EXPECT_EQ(fresh.losses.size(), 10u);
}

TEST(Checkpoints, SupervisorHearsOfThem) {
  struct Recorder final : Supervision {
    void OnStarted(const std::string& checkpoint, int64_t batch, int64_t) override {
      started = checkpoint + "@" + std::to_string(batch);
    }
    void OnCheckpointSaved(const std::string& path, int64_t batch) override { saved.push_back(batch); }
    std::string started;
    std::vector<int64_t> saved;
  };
  const TempDir folder;
  Recorder first, second;
  TrainerOptions options = Saving(folder);
  options.max_duration = Time::Batches(7);
  options.supervision = &first;
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(first.started, "@0");
  EXPECT_THAT(first.saved, ElementsAre(5, 7));
  options = Saving(folder);
  options.supervision = &second;
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(second.started, folder.Path("ep1-ba7") + "@7");
  EXPECT_THAT(second.saved, ElementsAre(10));
}

// Resumes a finished run of `Saving` with options changed by `change`.
absl::Status ResumeWith(const std::function<void(TrainerOptions&)>& change) {
  const TempDir folder;
  EXPECT_TRUE(Train(Saving(folder)).status.ok());
  TrainerOptions options = Saving(folder);
  options.max_duration = Time::Epochs(3);
  change(options);
  return Train(std::move(options)).status;
}

TEST(Checkpoints, OfAnotherModelAreRefusedByTensor) {
  const absl::Status status =
      ResumeWith([](TrainerOptions& options) { options.model = MakeTestModel({.hidden = 12}); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"first.weight", "second.weight", "autoresume: false", "ep2-ba10"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  const absl::Status extra =
      ResumeWith([](TrainerOptions& options) { options.model = MakeTestModel({.batch_norm = true}); });
  EXPECT_THAT(std::string(extra.message()), HasSubstr("norm.running_mean"));
}

struct Change {
  const char* name;
  std::function<void(TrainerOptions&)> apply;
  std::vector<std::string> message;
};
class ChangedSettingTest : public testing::TestWithParam<Change> {};

TEST_P(ChangedSettingTest, IsRefusedByName) {
  const absl::Status status = ResumeWith(GetParam().apply);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& part : GetParam().message) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(Settings, ChangedSettingTest,
                         testing::Values(Change{"seed", [](TrainerOptions& o) { o.seed = 18; }, {"seed: 18", "17"}},
                                         Change{"batch",
                                                [](TrainerOptions& o) { o.train.global_train_batch_size = 4; },
                                                {"global_train_batch_size: 4", "with 8", "ep2-ba10"}},
                                         Change{"dataset",
                                                [](TrainerOptions& o) { o.train.dataset = MakeRows(39); },
                                                {"train_dataloader", "39", "40"}}),
                         [](const auto& test) { return test.param.name; });

TEST(Checkpoints, FreezeTheGlobalBatchOfTheFirstLaunch) {
  const TempDir folder;
  const auto options = [&](Time max_duration) {
    return [&folder, max_duration](int) {
      TrainerOptions result = Saving(folder);
      result.train.global_train_batch_size = 0;
      result.train.device_train_batch_size = 4;
      result.max_duration = max_duration;
      return result;
    };
  };
  const auto two = TrainOnRanks(2, options(Time::Epochs(1)));
  ASSERT_TRUE(two[0].status.ok()) << two[0].status;
  EXPECT_EQ(two[0].timestamp.batch, 5) << "global batches of 4 x 2 ranks";
  const auto three = TrainOnRanks(3, options(Time::Epochs(2)));
  ASSERT_TRUE(three[0].status.ok()) << three[0].status;
  EXPECT_EQ(three[0].timestamp.batch, 10) << "still of 8";
  EXPECT_LT(LargestDifference(three[0], Train(SmallRun())), 2e-5);
}

TEST(Checkpoints, SeveralRanksNeedAStore) {
  ThreadsExchange exchange(2);
  ThreadsCommunicator communicator(exchange, 0);
  const TempDir folder;
  TrainerOptions options = Saving(folder);
  options.communicator = &communicator;
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()), HasSubstr("store: "));
}

}  // namespace
}  // namespace composer
