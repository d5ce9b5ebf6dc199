// Tests checkpoints of runs with EMA: what they hold, that a run resumes from them bit for bit, and how they
// interoperate with runs without EMA.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/format/diff.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/ema_runs.h"

namespace composer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

EmaArguments LateAndSeldom() {
  EmaArguments arguments = HalfLife(Time::Batches(5));
  arguments.ema_start = Time::Batches(4);
  arguments.update_interval = Time::Batches(2);
  return arguments;
}

// `batches` batches of 12 samples, 5 batches per epoch.
TrainerOptions Options(const std::string& folder, int64_t batches, const EmaArguments& arguments,
                       const ModelShape& shape = {.batch_norm = true}) {
  TrainerOptions options = SmallRun(shape);
  options.max_duration = Time::Batches(batches);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(24, 8, 4, 0, 3);
  evaluator.batch_size = 8;
  evaluator.eval_interval = Time::Batches(4);
  options.evaluators.push_back(evaluator);
  AddEma(options, arguments);
  return options;
}

TEST(EmaCheckpoint, TheModelIsTheAverageAndTheWeightsAreBesideIt) {
  for (const bool save_async : {true, false}) {
    const TempDir folder;
    TrainerOptions options = Options(folder.path(), 6, HalfLife(Time::Batches(5)));
    options.save.save_async = save_async;
    const Ema* ema = static_cast<const Ema*>(options.algorithms[0].get());
    auto trainer = Trainer::Create(std::move(options)).value();
    ASSERT_TRUE(trainer->Fit().ok());
    Tensors averages;
    for (const KeptTensor& kept : ema->tensors()) averages.emplace(kept.name, kept.tensor);
    Tensors weights;
    for (const auto& item : trainer->state().model->named_parameters()) weights.emplace(item.key(), item.value());
    for (const auto& item : trainer->state().model->named_buffers()) weights.emplace(item.key(), item.value());
    const TempDir by_hand, weights_only;
    ASSERT_TRUE(trainer->SaveCheckpoint(by_hand.path()).ok());
    ASSERT_TRUE(trainer->SaveCheckpoint(weights_only.path(), /*weights_only=*/true).ok());
    for (const std::string& saved_in : {folder.path(), by_hand.path(), weights_only.path()}) {
      const Tensors saved = NewestTensors(saved_in);
      EXPECT_TRUE(SameBits(Below(saved, "model/"), averages));
      if (saved_in == weights_only.path()) {
        EXPECT_THAT(Below(saved, "algorithms/"), IsEmpty());
      } else {
        EXPECT_TRUE(SameBits(Below(saved, "algorithms/EMA/"), weights));
      }
    }
    EXPECT_EQ(NewestCheckpoint(folder.path()).small.count("algorithms/EMA"), 1u);
  }
}

struct ResumeRow {
  const char* name;
  EmaArguments arguments;
};

class EmaResume : public testing::TestWithParam<int64_t> {};

// Stopped and started again, a run ends the same as one that was not.
TEST_P(EmaResume, IsBitExactOnOneRankAndTwo) {
  const ResumeRow rows[] = {{"batches", HalfLife(Time::Batches(5))},
                            {"epochs", HalfLife(Time::Epochs(1))},
                            {"late and seldom", LateAndSeldom()}};
  for (const ResumeRow& row : rows) {
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(testing::Message() << row.name << ", " << ranks << " ranks");
      const TempDir undisturbed, disturbed;
      const auto run = [&](const TempDir& folder, int64_t batches) {
        return TrainOnRanks(ranks, [&](int) {
          TrainerOptions options = Options(folder.path(), batches, row.arguments);
          // Ranks have their own running statistics, which a save makes equal, so both runs save at the same batches.
          options.save.save_interval = Time::Batches(GetParam());
          return options;
        })[0];
      };
      ASSERT_TRUE(run(undisturbed, 12).status.ok());
      ASSERT_TRUE(run(disturbed, GetParam()).status.ok());
      const RunResult resumed = run(disturbed, 12);
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_THAT(resumed.resumed_from, HasSubstr("-ba" + std::to_string(GetParam())));
      EXPECT_THAT(DiffStates(NewestCheckpoint(undisturbed.path()), NewestCheckpoint(disturbed.path())), IsEmpty());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Batches, EmaResume, testing::Values(1, 3, 4, 5, 6, 10));

RunResult Loaded(const TempDir& from, bool with_ema, const std::function<void(TrainerOptions&)>& change = {}) {
  TrainerOptions options = Options("", 6, HalfLife(Time::Batches(5)), {});
  if (!with_ema) options.algorithms.clear();
  options.load.load_path = from.path();
  if (change) change(options);
  return Train(std::move(options));
}

TEST(EmaCheckpoint, OfARunWithoutItBeginsFromTheLoadedWeights) {
  const TempDir folder;
  TrainerOptions plain = Options(folder.path(), 5, {}, {});
  plain.algorithms.clear();
  ASSERT_TRUE(Train(std::move(plain)).status.ok());
  TrainerOptions options = Options("", 6, HalfLife(Time::Batches(5)), {});
  options.load.load_path = folder.path();
  const Ema* ema = static_cast<const Ema*>(options.algorithms[0].get());
  auto trainer = Trainer::Create(std::move(options)).value();
  EXPECT_FALSE(ema->has_started());
  ASSERT_TRUE(trainer->Fit().ok());
  EXPECT_EQ(trainer->state().timestamp.batch, 6);
  ASSERT_TRUE(ema->has_started());
  for (const KeptTensor& kept : ema->tensors()) EXPECT_TRUE(kept.tensor.equal(kept.param)) << "after its first batch";
}

// fit runs for no batch, to show the state after loading.
TEST(EmaCheckpoint, WithoutItInTheRunTheModelIsTheAverage) {
  const TempDir folder;
  ASSERT_TRUE(Train(Options(folder.path(), 6, HalfLife(Time::Batches(5)), {})).status.ok());
  const Tensors saved = NewestTensors(folder.path());
  const RunResult without = Loaded(folder, false);
  ASSERT_TRUE(without.status.ok()) << without.status;
  EXPECT_TRUE(SameBits(AsMap(without), Below(saved, "model/")));
  const RunResult with = Loaded(folder, true);
  EXPECT_TRUE(SameBits(AsMap(with), Below(saved, "algorithms/EMA/")));
  const std::pair<const char*, std::function<void(TrainerOptions&)>> rows[] = {
      {"weights only", [](TrainerOptions& options) { options.load.load_weights_only = true; }},
      {"excluded", [](TrainerOptions& options) { options.load.load_exclude_algorithms = {"EMA"}; }},
      {"key ignored", [](TrainerOptions& options) { options.load.load_ignore_keys = {"state/algorithms/EMA"}; }},
      {"all ignored", [](TrainerOptions& options) { options.load.load_ignore_keys = {"state/algorithms/*"}; }}};
  for (const auto& [name, change] : rows) {
    SCOPED_TRACE(name);
    Tensors first;
    const RunResult result = Loaded(folder, true, [&, also = change](TrainerOptions& options) {
      also(options);
      options.max_duration = Time::Batches(7);
      AddCallback(options, {Event::kFitStart}, [&](State& state) {
        for (const auto& item : state.model->named_parameters()) first.emplace(item.key(), item.value().clone());
      });
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_TRUE(SameBits(first, Below(saved, "model/")));
  }
}

TEST(EmaCheckpoint, AResumeWithoutItGoesOnFromTheAverages) {
  const TempDir folder;
  ASSERT_TRUE(Train(Options(folder.path(), 6, HalfLife(Time::Batches(5)), {})).status.ok());
  const Tensors saved = NewestTensors(folder.path());
  TrainerOptions options = Options(folder.path(), 8, {}, {});
  options.algorithms.clear();
  auto trainer = Trainer::Create(std::move(options)).value();
  EXPECT_THAT(trainer->resumed_from(), Not(IsEmpty()));
  for (const auto& item : trainer->state().model->named_parameters())
    EXPECT_TRUE(item.value().equal(saved.at("model/" + item.key()))) << item.key();
  EXPECT_TRUE(trainer->Fit().ok());
}

TEST(EmaCheckpoint, WhoseWeightsWereLeftOutIsNamed) {
  const TempDir folder;
  TrainerOptions options = Options(folder.path(), 6, HalfLife(Time::Batches(5)), {});
  options.save.save_ignore_keys = {"state/algorithms/EMA/first.*"};
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  const absl::Status status = Train(Options(folder.path(), 8, HalfLife(Time::Batches(5)), {})).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing in the checkpoint: algorithms/EMA/first.weight"));
}

}  // namespace
}  // namespace composer
