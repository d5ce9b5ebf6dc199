// A run that starts from any checkpoint of another ends in the same checkpoint, item by item, with every callback and
// schedule on. Source of the table: mosaicml tests/trainer/test_checkpoint.py, test_resumption (2 epochs of 5 batches;
// from ep1, ba4, ba5, ba6).
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "checkpoint/format/diff.h"
#include "checkpoint/load/reader.h"
#include "fault/fail_at.h"
#include "storage/local_store.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/callbacks/memory/free_outputs.h"
#include "trainer/callbacks/memory/oom_observer.h"
#include "trainer/callbacks/monitors/activation_monitor.h"
#include "trainer/callbacks/monitors/lr_monitor.h"
#include "trainer/callbacks/monitors/memory_monitor.h"
#include "trainer/callbacks/monitors/nan_monitor.h"
#include "trainer/callbacks/monitors/optimizer_monitor.h"
#include "trainer/callbacks/monitors/runtime_estimator.h"
#include "trainer/callbacks/monitors/speed_monitor.h"
#include "trainer/callbacks/monitors/system_metrics_monitor.h"
#include "trainer/callbacks/output/export_for_inference.h"
#include "trainer/callbacks/output/sample_recorder.h"
#include "trainer/callbacks/stops/early_stopper.h"
#include "trainer/callbacks/stops/threshold_stopper.h"
#include "trainer/optim/schedule/cyclic.h"
#include "trainer/optim/schedule/one_cycle.h"
#include "trainer/optim/schedule/reduce_lr_on_plateau.h"
#include "trainer/optim/schedule/schedules.h"
#include "trainer/optim/schedule/torch_schedules.h"

namespace composer {
namespace {

using testing::IsEmpty;

// What a run uses besides its options. On its own clock a training batch takes one second and an evaluation batch
// three, so that wall-clock times are part of the comparison.
struct Platform {
  TempDir folder;
  std::vector<std::unique_ptr<ManualClock>> clocks;  // by rank
  std::string epochs() const { return folder.Path("epochs"); }
  std::string batches() const { return folder.Path("batches"); }
};

// Adds callbacks that only observe; AddEveryCallback adds those that keep something for the next run.
void AddObservers(TrainerOptions& options, const std::string& folder) {
  auto& callbacks = options.callbacks;
  callbacks.push_back(std::make_unique<ActivationMonitor>(ActivationMonitor::Options{}));
  callbacks.push_back(std::make_unique<ExportForInference>(ExportForInference::Options{folder + "/export", "{}"}));
  callbacks.push_back(std::make_unique<FreeOutputs>());
  callbacks.push_back(std::make_unique<FailAt>(FailAt::Options{.armed = false}));
  callbacks.push_back(std::make_unique<LRMonitor>());
  callbacks.push_back(std::make_unique<MemoryMonitor>(MemoryMonitor::Options{.interval = 1}));
  callbacks.push_back(std::make_unique<NaNMonitor>());
  callbacks.push_back(std::make_unique<OOMObserver>(OOMObserver::Options{}));
  callbacks.push_back(std::make_unique<OptimizerMonitor>(OptimizerMonitor::Options{.interval = 2}));
  callbacks.push_back(std::make_unique<SampleRecorder>());
  callbacks.push_back(std::make_unique<SystemMetricsMonitor>(SystemMetricsMonitor::Options{}));
}

void AddEveryCallback(TrainerOptions& options, ManualClock& clock) {
  auto& callbacks = options.callbacks;
  AddCallback(options, {Event::kBatchStart}, [&clock](State&) { clock.Advance(absl::Seconds(1)); });
  AddCallback(options, {Event::kEvalBatchStart}, [&clock](State&) { clock.Advance(absl::Seconds(3)); });
  callbacks.push_back(std::make_unique<EarlyStopper>(
      EarlyStopper::Options{.monitor = "metrics/eval/MulticlassAccuracy", .patience = Time::Epochs(100)}));
  callbacks.push_back(std::make_unique<EarlyStopper>(
      EarlyStopper::Options{.monitor = "loss/train/total", .patience = Time::Batches(100)}));
  callbacks.push_back(std::make_unique<ThresholdStopper>(
      ThresholdStopper::Options{.monitor = "metrics/eval/MulticlassAccuracy", .threshold = 2}));
  AddObservers(options, options.run_folder);
  callbacks.push_back(std::make_unique<SpeedMonitor>(SpeedMonitor::Options{.window_size = 3}, clock));
  callbacks.push_back(std::make_unique<RuntimeEstimator>(RuntimeEstimator::Options{}, clock));
}

// Saves each epoch into epochs(), each batch into batches().
TrainerOptions Options(Platform& around, size_t rank, const ModelShape& shape) {
  TrainerOptions options = SmallRun(shape);
  options.run_folder = around.folder.path();
  options.clock = around.clocks[rank].get();
  AddEveryCallback(options, *around.clocks[rank]);
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(12, 8, 4, 0, /*start=*/3);
  evaluator.batch_size = 4;
  evaluator.eval_interval = Time::Batches(2);
  options.evaluators.push_back(std::move(evaluator));
  for (const char* name : {"cosine_annealing_with_warmup", "exponential"})
    options.schedulers.push_back(MakeScheduler(ScheduleByName(name).value()));
  options.schedulers.push_back(std::make_unique<ReduceLROnPlateau>(
      PlateauSpec{.every_batch = true, .maximize = true, .factor = 0.5, .patience = 1}));
  options.save.save_folder = around.epochs();
  options.checkpoint_savers.emplace_back();
  options.checkpoint_savers.back().save_folder = around.batches();
  options.checkpoint_savers.back().save_interval = Time::Batches(1);
  return options;
}

void TrainIn(Platform& around, int world_size, const ModelShape& shape, const std::string& load_path = "") {
  for (int rank = 0; rank < world_size; ++rank)
    around.clocks.push_back(std::make_unique<ManualClock>(absl::UnixEpoch() + absl::Hours(1)));
  const auto results = TrainOnRanks(world_size, [&](int rank) {
    TrainerOptions options = Options(around, static_cast<size_t>(rank), shape);
    options.load.load_path = load_path;
    return options;
  });
  for (const RunResult& result : results) ASSERT_TRUE(result.status.ok()) << result.status;
}

StateDict Load(const std::string& folder, const std::string& checkpoint) {
  LocalStore store(folder);
  return LoadNewStateDict(store, checkpoint).value();
}

void ExpectSameEnd(const Platform& a, const Platform& b) {
  for (const char* checkpoint : {"ep2-ba10"}) {
    const StateDict expected = Load(a.epochs(), checkpoint), got = Load(b.epochs(), checkpoint);
    EXPECT_THAT(DiffStates(expected, got), IsEmpty());
    EXPECT_EQ(got.small.at("timestamp"), expected.small.at("timestamp")) << "wall-clock times included";
    for (const char* key : {"EarlyStopper", "EarlyStopper#2", "SpeedMonitor", "RuntimeEstimator"}) {
      ASSERT_EQ(got.small.count(absl::StrCat("callbacks/", key)), 1u) << key << " saved nothing";
      EXPECT_EQ(got.small.at(absl::StrCat("callbacks/", key)), expected.small.at(absl::StrCat("callbacks/", key)));
    }
  }
  EXPECT_THAT(DiffStates(Load(a.batches(), "ep1-ba9"), Load(b.batches(), "ep1-ba9")), IsEmpty());
}

struct Point {
  const char* name;
  bool of_epochs;  // which of the two folders it is in
};

class ResumeFromTest : public testing::TestWithParam<Point> {
 protected:
  void ExpectTheSame(int world_size, const ModelShape& shape) {
    Platform undisturbed, resumed;
    ASSERT_NO_FATAL_FAILURE(TrainIn(undisturbed, world_size, shape));
    const std::string folder = GetParam().of_epochs ? undisturbed.epochs() : undisturbed.batches();
    ASSERT_NO_FATAL_FAILURE(TrainIn(resumed, world_size, shape, absl::StrCat(folder, "/", GetParam().name)));
    EXPECT_EQ(Checkpoints(resumed.batches()).front(), FirstAfter());
    ExpectSameEnd(undisturbed, resumed);
  }
  // Returns the first batch checkpoint that a run from here on writes.
  std::string FirstAfter() const {
    const std::map<std::string, std::string> next = {
        {"ep1-ba5", "ep1-ba6"}, {"ep0-ba4", "ep0-ba5"}, {"ep0-ba5", "ep1-ba6"}, {"ep1-ba6", "ep1-ba7"}};
    return next.at(GetParam().name);
  }
};

TEST_P(ResumeFromTest, EndsInTheSameCheckpoint) { ExpectTheSame(1, {.batch_norm = true, .dropout = 0.3}); }

// There is no dropout, because ranks are threads here and share torch's generator.
TEST_P(ResumeFromTest, EndsInTheSameCheckpointOnTwoRanks) { ExpectTheSame(2, {.batch_norm = true}); }

INSTANTIATE_TEST_SUITE_P(Checkpoints, ResumeFromTest,
                         testing::Values(Point{"ep1-ba5", true}, Point{"ep0-ba4", false}, Point{"ep0-ba5", false},
                                         Point{"ep1-ba6", false}));

// Trained to the end at once, or stopped after 4 batches and resumed.
class EveryScheduleTest : public testing::TestWithParam<const char*> {};

// Returns Composer's schedules by name, and torch's, configured so that each has an effect within 10 batches.
std::unique_ptr<Scheduler> ScheduleOfTenBatches(const std::string& name) {
  if (name == "reduce_lr_on_plateau") {
    return std::make_unique<ReduceLROnPlateau>(
        PlateauSpec{.every_batch = true, .maximize = true, .factor = 0.5, .patience = 0});
  }
  if (name == "one_cycle_lr") return MakeOneCycleScheduler({.every_batch = true, .max_lr = 0.01});
  if (name == "cyclic_lr") return MakeCyclicScheduler({.every_batch = true, .max_lr = 0.01, .step_size_up = 3});
  const std::pair<const char*, TorchScheduleSpec> of_torch[] = {
      {"constant_lr", {.curve = TorchCurve::kConstant}},
      {"polynomial_lr", {.curve = TorchCurve::kPolynomial, .total_iters = 12}},
      {"step_lr", {.curve = TorchCurve::kStep, .step_size = 3}},
      {"multi_step_lr", {.curve = TorchCurve::kMultiStep, .milestones = {2, 7}}},
      {"linear_lr", {.curve = TorchCurve::kLinear}},
      {"exponential_lr", {.curve = TorchCurve::kExponential, .gamma = 0.9}},
      {"cosine_annealing_lr", {.curve = TorchCurve::kCosine, .t_max = 10}},
      {"cosine_annealing_warm_restarts_lr", {.curve = TorchCurve::kWarmRestarts, .t_0 = 6}}};
  for (auto [known, spec] : of_torch) {
    spec.every_batch = true;
    if (name == known) return MakeTorchScheduler(spec);
  }
  ScheduleSpec spec = ScheduleByName(name).value();
  if (spec.t_warmup) spec.t_warmup = Time::Batches(3);
  if (spec.curve == Curve::kStep || spec.curve == Curve::kWarmRestarts) spec.period = Time::Batches(3);
  if (spec.curve == Curve::kConstant) spec.alpha_i = 0.5, spec.t_max = Time::Batches(spec.t_warmup ? 10 : 6);
  spec.milestones = {Time::Batches(2), Time::Batches(7)};
  return MakeScheduler(spec);
}

TEST_P(EveryScheduleTest, ResumesBitExactly) {
  std::vector<double> rates[2];
  RunResult results[2];
  for (const bool stop : {false, true}) {
    const TempDir folder;
    const auto options = [&] {
      TrainerOptions result = SmallRun();
      result.schedulers.push_back(ScheduleOfTenBatches(GetParam()));
      result.save.save_folder = folder.path();
      result.save.save_interval = Time::Epochs(10);
      AddCallback(result, {Event::kAfterTrainBatch},
                  [&rates, stop](State& state) { rates[stop].push_back(state.optimizer->groups()[0].lr); });
      return result;
    };
    if (stop) {
      DrainAt drain(4);
      TrainerOptions first = options();
      first.supervision = &drain;
      ASSERT_EQ(Train(std::move(first)).status.code(), absl::StatusCode::kCancelled);
    }
    results[stop] = Train(options());
    ASSERT_TRUE(results[stop].status.ok()) << results[stop].status;
  }
  EXPECT_EQ(rates[0], rates[1]);
  EXPECT_EQ(LargestDifference(results[0], results[1]), 0);
  ASSERT_EQ(rates[0].size(), 10u);
  EXPECT_NE(rates[0][0], rates[0][8]) << "the schedule does something";
}

INSTANTIATE_TEST_SUITE_P(Names, EveryScheduleTest,
                         testing::Values("constant", "linear", "cosine_annealing", "polynomial", "exponential", "step",
                                         "multi_step", "cosine_annealing_warm_restarts", "constant_with_warmup",
                                         "linear_with_warmup", "cosine_annealing_with_warmup", "polynomial_with_warmup",
                                         "multi_step_with_warmup", "step_lr", "multi_step_lr", "constant_lr",
                                         "linear_lr", "polynomial_lr", "cyclic_lr", "exponential_lr",
                                         "cosine_annealing_lr", "cosine_annealing_warm_restarts_lr", "one_cycle_lr",
                                         "reduce_lr_on_plateau"));

// The microbatch size may change: the samples of each batch are the same, the weights equal up to rounding.
TEST(Resumption, WithAnotherMicrobatchSizeTakesTheSameSamples) {
  for (const int world_size : {1, 2}) {
    const TempDir folder;
    std::vector<std::vector<int64_t>> whole, parts;
    const auto options = [&](std::vector<std::vector<int64_t>>* ids, int64_t microbatch, int rank) {
      TrainerOptions result = SmallRun();
      result.train.shuffle = true;
      result.device_train_microbatch_size = microbatch;
      if (rank == 0)
        AddCallback(result, {Event::kBatchStart}, [ids](State& state) { ids->push_back(state.batch.sample_ids); });
      return result;
    };
    const auto undisturbed = TrainOnRanks(world_size, [&](int rank) { return options(&whole, 0, rank); });
    const auto with_folder = [&](int64_t microbatch, int rank) {
      TrainerOptions result = options(&parts, microbatch, rank);
      result.save.save_folder = folder.path();
      return result;
    };
    DrainAt drain(4);
    TrainOnRanks(world_size, [&](int rank) {
      TrainerOptions result = with_folder(0, rank);
      result.supervision = &drain;
      return result;
    });
    const auto resumed = TrainOnRanks(world_size, [&](int rank) { return with_folder(3, rank); });
    ASSERT_TRUE(resumed[0].status.ok()) << resumed[0].status;
    EXPECT_EQ(whole, parts);
    ASSERT_EQ(whole.size(), 10u);
    EXPECT_GT(LargestDifference(undisturbed[0], resumed[0]), 0) << "the microbatches were the same";
    EXPECT_LT(LargestDifference(undisturbed[0], resumed[0]), 2e-5);
  }
}

}  // namespace
}  // namespace composer
