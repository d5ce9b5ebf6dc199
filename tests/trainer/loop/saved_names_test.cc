// Tests what checkpoints are called, which of them stay by a metric, and that they know the metrics of their run.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/saved_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/folder/verify.h"
#include "storage/local_store.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/resume/saved_metrics.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// Two epochs of five batches with an evaluation after each batch, saved after each, too.
TrainerOptions SavedRun(const std::string& folder) {
  TrainerOptions options = SmallRun();
  options.run_name = "r";
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(1);
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(23, 8, 4, 0, /*start=*/5);
  evaluator.batch_size = 4;
  evaluator.eval_interval = Time::Batches(1);
  options.evaluators = {evaluator};
  return options;
}

std::unique_ptr<Trainer> Started(TrainerOptions options) {
  auto trainer = Trainer::Create(std::move(options));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

std::vector<std::string> FoldersOf(const std::string& folder) {
  std::vector<std::string> names;
  const std::vector<std::string> all = *ListDir(folder);
  for (const std::string& name : all) {
    if (CheckpointName::Parse(name).has_value()) names.push_back(name);
  }
  return names;
}

TEST(SavedNames, ALinkIsWrittenFollowedAndDeletedWithItsCheckpoint) {
  for (const bool async : {false, true}) {
    const TempDir dir;
    TrainerOptions options = SavedRun(dir.path());
    options.save.save_filename = "e{epoch}/{run_name}-{batch:04}-{sample}-{rank}of{world_size}.pt";
    options.save.save_num_checkpoints_to_keep = 2;
    options.save.save_async = async;
    options.max_duration = Time::Batches(7);
    ASSERT_TRUE(Started(std::move(options))->Fit().ok());
    EXPECT_THAT(*ListDir(dir.Path("e1")), UnorderedElementsAre("r-0006-48-0of1.pt", "r-0007-56-0of1.pt"));
    TrainerOptions other = SmallRun();
    other.load.load_path = dir.Path("e1/r-0006-48-0of1.pt");
    const auto loaded = Started(std::move(other));
    EXPECT_EQ(loaded->state().timestamp.batch, 6);
    EXPECT_THAT(loaded->loaded_from(), HasSubstr("ep1-ba6"));
  }
}

TEST(SavedNames, TheBestCheckpointsStayAndTheNewest) {
  const TempDir dir;
  TrainerOptions options = SavedRun(dir.path());
  options.save.save_top_k = SaveTopK{"metrics/eval/CrossEntropy", 2, /*less_is_better=*/true};
  std::vector<std::pair<double, std::string>> seen;  // the value after each batch
  AddCallback(options, {Event::kBatchCheckpoint}, [&](State& state) {
    seen.emplace_back(ScoreNow(state, "metrics/eval/CrossEntropy"),
                      CheckpointName{state.timestamp.epoch, state.timestamp.batch}.ToString());
  });
  const auto trainer = Started(std::move(options));
  ASSERT_TRUE(trainer->Fit().ok());
  ASSERT_EQ(seen.size(), 10u);
  const std::string newest = seen.back().second;
  std::sort(seen.begin(), seen.end());
  std::set<std::string> wanted = {seen[0].second, seen[1].second, newest};
  const std::vector<std::string> there = FoldersOf(dir.path());
  EXPECT_EQ(std::set<std::string>(there.begin(), there.end()), wanted);
  std::set<std::string> said;
  for (const std::string& place : trainer->saved_checkpoints()) said.insert(BaseName(place));
  EXPECT_EQ(said, wanted);
  LocalStore store(dir.path());
  EXPECT_EQ(ScoreOf(ReadManifest(store, seen[0].second)->small, "metrics/eval/CrossEntropy"), seen[0].first);
}

TEST(SavedNames, AResumedRunComparesWithWhatItSavedBefore) {
  const TempDir whole, cut;
  const auto options = [](const std::string& folder, int64_t batches) {
    TrainerOptions made = SavedRun(folder);
    made.save.save_top_k = SaveTopK{"loss/train/total", 3, /*less_is_better=*/true};
    made.max_duration = Time::Batches(batches);
    return made;
  };
  ASSERT_TRUE(Started(options(whole.path(), 9))->Fit().ok());
  ASSERT_TRUE(Started(options(cut.path(), 4))->Fit().ok());
  ASSERT_TRUE(Started(options(cut.path(), 9))->Fit().ok());
  EXPECT_EQ(FoldersOf(cut.path()), FoldersOf(whole.path()));
}

TEST(SavedNames, AMetricThatIsNotMeasuredAtTheBatchIsNoScore) {
  const TempDir dir;
  TrainerOptions options = SavedRun(dir.path());
  options.evaluators[0].eval_interval = Time::Batches(4);
  options.max_duration = Time::Batches(9);
  options.save.save_top_k = SaveTopK{"metrics/eval/CrossEntropy", 9, true};
  ASSERT_TRUE(Started(std::move(options))->Fit().ok());
  EXPECT_THAT(FoldersOf(dir.path()), UnorderedElementsAre("ep0-ba4", "ep1-ba8", "ep1-ba9"));
}

TEST(SavedNames, AnUnknownMetricIsNamedBeforeTheFirstStep) {
  const TempDir dir;
  TrainerOptions options = SavedRun(dir.path());
  options.save.save_top_k = SaveTopK{"metrics/eval/CrossEntrpy", 1, true};
  auto trainer = Trainer::Create(std::move(options));
  const absl::Status status = trainer.ok() ? (*trainer)->Fit() : trainer.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean `metrics/eval/CrossEntropy`?"));
}

TEST(SavedMetrics, ARunThatResumesKnowsItsLastEvaluation) {
  for (const bool saved : {true, false}) {
    const TempDir dir;
    const auto options = [&] {
      TrainerOptions made = SavedRun(dir.path());
      made.save.save_metrics = saved;
      made.max_duration = Time::Batches(6);
      return made;
    };
    std::vector<std::pair<std::string, double>> before;
    double train = 0;
    {
      const auto trainer = Started(options());
      ASSERT_TRUE(trainer->Fit().ok());
      before = trainer->eval_results();
      train = trainer->state().train_metrics.at(0)->Compute();
    }
    const auto resumed = Started(options());
    EXPECT_EQ(resumed->state().timestamp.batch, 6);
    ASSERT_FALSE(before.empty());
    EXPECT_EQ(resumed->eval_results(), saved ? before : decltype(before)());
    if (saved) EXPECT_EQ(resumed->state().train_metrics.at(0)->Compute(), train);
  }
}

TEST(SavedMetrics, OddTextIsDataLossAndOtherMetricsArePassedOver) {
  State state;
  state.train_metrics.push_back(MakeMulticlassAccuracy());
  const std::string name = state.train_metrics[0]->name();
  for (const char* odd : {"", "7", "{}", R"({"train": 1, "eval": {}})", R"({"train": {}, "eval": 1})"})
    EXPECT_EQ(RestoreMetrics(odd, state).code(), absl::StatusCode::kDataLoss) << odd;
  const auto with = [&](const std::string& metric) {
    return R"({"train": {")" + name + R"(": )" + metric + R"(}, "eval": {}})";
  };
  EXPECT_EQ(RestoreMetrics(with("{}"), state).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(RestoreMetrics(with(R"({"sums": ["a"], "lists": []})"), state).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(RestoreMetrics(with(R"({"sums": [1, 2, 3, 4, 5, 6, 7], "lists": []})"), state).ok());
  EXPECT_TRUE(RestoreMetrics(R"({"train": {"Other": 7}, "eval": {"gone": {}}})", state).ok());
}

}  // namespace
}  // namespace composer
