// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "job/plan/hardware.h"
#include "job/plan/run_plan.h"
#include "trainer/models/mlp.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HardwareTest, FindsGpusByNameAndSaysWhatIsNear) {
  EXPECT_STREQ(FindGpu("h100-80")->device_name, "NVIDIA H100 80GB HBM3");
  const absl::Status unknown = FindGpu("h100-8").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), AllOf(HasSubstr("h100-80"), HasSubstr("a100-40")));
}

TEST(HardwareTest, TakesTheTrainingOfTheNearestSizeOnThatGpuOnly) {
  const GpuKind h100 = FindGpu("h100-80").value(), t4 = FindGpu("t4-16").value();
  EXPECT_EQ(NearestTraining(h100, 8e9)->parameters, 6.7e9);
  EXPECT_EQ(NearestTraining(h100, 100e6)->parameters, 124e6);
  EXPECT_EQ(NearestTraining(h100, 1e6), nullptr) << "more than a factor of 4 away";
  EXPECT_EQ(NearestTraining(t4, 1.3e9), nullptr);
}

// For an MLP of 100 -> 50 -> 10.
TrainerOptions Options(int64_t batch) {
  TrainerOptions options;
  options.train.global_train_batch_size = batch;
  options.max_duration = Time::Batches(1000);
  return options;
}

PlannedModel AnMlp() {
  PlannedModel model;
  model.parameters = model.trainable = 100 * 50 + 50 + 50 * 10 + 10;
  model.optimizer_bytes_per_parameter = 8;
  return model;
}

TEST(PlanRanksTest, AWholeModelNeedsTheSameOnEveryRank) {
  const auto mlp = MakeMlp({100, 50, 10});
  const PlannedModel model = AnMlp();
  for (const int ranks : {1, 4}) {
    const PlannedRanks planned = PlanRanks(*mlp, model, Options(32), ranks).value();
    EXPECT_FALSE(planned.sharded);
    EXPECT_EQ(planned.memory.parameters, 4 * 5560);
    EXPECT_EQ(planned.memory.gradients, 4 * 5560);
    EXPECT_EQ(planned.memory.optimizer, 8 * 5560);
    EXPECT_EQ(planned.microbatch, 32 / ranks);
    EXPECT_EQ(planned.sent_bytes, ranks == 1 ? 0 : 2 * 4 * 5560 * 3 / 4) << "a ring's all-reduce";
  }
}

TEST(PlanRanksTest, AShardedModelIsDividedAndSendsEachUnit) {
  const auto mlp = MakeMlp({100, 50, 10});
  const PlannedModel model = AnMlp();
  TrainerOptions options = Options(32);
  options.fsdp.emplace();
  options.device_train_microbatch_size = 2;
  const PlannedRanks planned = PlanRanks(*mlp, model, options, 4).value();
  EXPECT_TRUE(planned.sharded);
  EXPECT_EQ(planned.memory.parameters, 5560);
  EXPECT_EQ(planned.memory.optimizer, 2 * 5560);
  EXPECT_EQ(planned.passes, 4);
  EXPECT_GT(planned.memory.buffers, 4 * 5560) << "the whole unit and its gradients";
  EXPECT_EQ(planned.sent_bytes, planned.passes * 2 * 4 * 5560 * 3 / 4) << "gathered and reduced in each pass";
}

TEST(PlanRanksTest, ADegreeThatDoesNotFitIsRefused) {
  const auto mlp = MakeMlp({100, 50, 10});
  TrainerOptions options = Options(32);
  options.tensor_parallel_degree = 3;
  EXPECT_FALSE(PlanRanks(*mlp, AnMlp(), options, 4).ok());
}

TEST(TimeOfStepTest, FollowsFromOperationsPeakAndShare) {
  PlannedModel model;
  model.parameters = 6'700'000'000;
  model.flops_per_sample = 8.4e13;
  model.tokens_per_sample = 2048;
  const GpuKind gpu = FindGpu("h100-80").value();
  const PlannedRanks ranks = {.ranks = 8, .global_samples = 64};
  const PlannedTime time = TimeOfStep(model, ranks, gpu, Precision::kAmpBf16);
  EXPECT_DOUBLE_EQ(time.step_seconds, 8.4e13 * 64 / (8 * 989.5e12 * 0.464));
  EXPECT_EQ(TimeOfStep(model, ranks, gpu, Precision::kFp32).step_seconds, 0) << "nothing is known of fp32";
  model.tokens_per_sample = 0;
  EXPECT_EQ(TimeOfStep(model, ranks, gpu, Precision::kAmpBf16).step_seconds, 0) << "nor of other models";
}

TEST(NetworkTest, CollectivesTakeBandwidthHopsAndAStart) {
  const Network* const h100 = NetworkOf(FindGpu("h100-80").value());
  ASSERT_NE(h100, nullptr);
  EXPECT_EQ(NetworkOf(FindGpu("h100-pcie-80").value()), nullptr) << "no machine is known";
  constexpr double kInside = 0.8 * 450e9, kBetween = 0.8 * 400e9, kCard = 0.8 * 50e9;
  struct Row {
    RingOperation kind;
    double bytes;
    int ranks, per_node;
    double seconds;
  };
  const Row rows[] = {
      {RingOperation::kAllGather, 1e9, 1, 8, 0},
      {RingOperation::kAllGather, 0, 2, 8, 8.4e-6 + 3.4e-6},
      {RingOperation::kAllGather, 1e9, 8, 8, 8.4e-6 + 1e9 * 7 / 8 / kInside + 7 * 3.4e-6},
      {RingOperation::kReduceScatter, 1e9, 16, 8, 8.4e-6 + 1e9 * 15 / 16 / kBetween + 14 * 3.4e-6 + 9.6e-6},
      {RingOperation::kAllReduce, 1e9, 16, 8, 8.4e-6 + 2 * (1e9 * 15 / 16 / kBetween + 14 * 3.4e-6 + 9.6e-6)},
      {RingOperation::kAllGather, 1e9, 512, 8, 8.4e-6 + 1e9 * 511 / 512 / kBetween + 448 * 3.4e-6 + 63 * 9.6e-6},
      {RingOperation::kAllReduce, 1e9, 4, 1, 8.4e-6 + 2 * (1e9 * 3 / 4 / kCard + 3 * 9.6e-6)},
  };
  for (const Row& row : rows)
    EXPECT_DOUBLE_EQ(CollectiveSeconds(row.kind, row.bytes, row.ranks, row.per_node, *h100), row.seconds)
        << row.ranks << " ranks, " << row.per_node << " on a node";
}

TEST(NetworkTest, AStepsTrafficGoesOverItsPartOfTheMesh) {
  const Network& h100 = *NetworkOf(FindGpu("h100-80").value());
  const auto gather = [&](double bytes, int ranks, int per_node) {
    return CollectiveSeconds(RingOperation::kAllGather, bytes, ranks, per_node, h100);
  };
  const StepTraffic full = {.gathered = 4e9, .gathers = 4, .shard = 16, .first = 1e9};
  EXPECT_DOUBLE_EQ(TimeOf(full, h100).seconds, 4 * gather(1e9, 16, 8));
  EXPECT_DOUBLE_EQ(TimeOf(full, h100).ends,
                   gather(1e9, 16, 8) + CollectiveSeconds(RingOperation::kReduceScatter, 0, 16, 8, h100));
  StepTraffic split = full;
  split.tensor = 4;
  EXPECT_DOUBLE_EQ(TimeOf(split, h100).seconds, 4 * gather(1e9, 16, 2)) << "two of the ranks are on one node";
  const StepTraffic hybrid = {.reduced = 1e9, .reduces = 1, .shard = 8, .replicate = 4, .last = 1e9};
  EXPECT_DOUBLE_EQ(TimeOf(hybrid, h100).seconds, CollectiveSeconds(RingOperation::kAllReduce, 1e9, 4, 1, h100));
  EXPECT_DOUBLE_EQ(TimeOf(hybrid, h100).ends, TimeOf(hybrid, h100).seconds);
}

TEST(TimeOfStepTest, ASlowNetworkSetsTheTimeAndTheShare) {
  PlannedModel model;
  model.parameters = 6'700'000'000;
  model.flops_per_sample = 8.4e13;
  model.tokens_per_sample = 2048;
  const GpuKind gpu = FindGpu("h100-80").value();
  PlannedRanks ranks = {.ranks = 64, .global_samples = 64};
  const double compute = 8.4e13 / (989.5e12 * 0.464);
  ranks.traffic = {.gathered = 1e9, .gathers = 1, .shard = 64};
  const PlannedTime hidden = TimeOfStep(model, ranks, gpu, Precision::kAmpBf16);
  EXPECT_DOUBLE_EQ(hidden.step_seconds, compute + hidden.traffic.ends);
  EXPECT_DOUBLE_EQ(hidden.mfu, 0.464 * compute / hidden.step_seconds);
  ranks.traffic.gathered = 1e12;
  const PlannedTime late = TimeOfStep(model, ranks, gpu, Precision::kAmpBf16);
  EXPECT_GT(late.traffic.seconds, compute);
  EXPECT_DOUBLE_EQ(late.step_seconds, late.traffic.seconds);
  EXPECT_LT(late.mfu, 0.464 / 10);
  ranks.traffic.overlaps = false;
  EXPECT_DOUBLE_EQ(TimeOfStep(model, ranks, gpu, Precision::kAmpBf16).step_seconds, compute + late.traffic.seconds);
}

TEST(PlanRanksTest, CountsTheCollectivesOfAStep) {
  const auto mlp = MakeMlp({100, 50, 10});
  TrainerOptions options = Options(32);
  const StepTraffic whole = PlanRanks(*mlp, AnMlp(), options, 4).value().traffic;
  EXPECT_EQ(whole.reduces, 1);
  EXPECT_EQ(whole.reduced, 4 * 5560);
  EXPECT_EQ(whole.replicate, 4);
  options.fsdp.emplace();
  options.device_train_microbatch_size = 2;
  const StepTraffic sharded = PlanRanks(*mlp, AnMlp(), options, 4).value().traffic;
  EXPECT_EQ(sharded.gathers, 1) << "the root is whole for all 4 passes";
  EXPECT_EQ(sharded.scatters, 4);
  EXPECT_EQ(sharded.scattered, 4 * 4 * 5560);
  EXPECT_EQ(sharded.shard, 4);
  EXPECT_EQ(sharded.reduces, 0);
}

TEST(RunPlanTextTest, SaysWhetherItFitsAndWhatToChange) {
  PlannedModel model;
  model.parameters = model.trainable = 6'700'000'000;
  model.flops_per_sample = 8.4e13;
  model.tokens_per_sample = 2048;
  model.why_no_activations = "the model is too large";
  TrainerOptions options = Options(64);
  options.precision = Precision::kAmpBf16;
  PlannedRanks ranks = {.ranks = 8, .global_samples = 64, .microbatch = 8};
  ranks.memory.parameters = ranks.memory.gradients = int64_t{27} << 30;
  ranks.memory.optimizer = int64_t{54} << 30;
  const GpuKind gpu = FindGpu("h100-80").value();
  const std::string whole = RunPlanText(model, ranks, {}, gpu, options);
  EXPECT_THAT(whole,
              AllOf(HasSubstr("does not fit"), HasSubstr("FULL_SHARD"), HasSubstr("activations are not counted")));
  ranks.sharded = true;
  ranks.memory = {};
  ranks.memory.parameters = int64_t{4} << 30;
  const std::string sharded = RunPlanText(model, ranks, {ranks}, gpu, options);
  EXPECT_THAT(sharded, AllOf(HasSubstr("are left for activations"), HasSubstr("MPT 7B"), HasSubstr("tokens/s"),
                             HasSubstr("for 1 k steps"), Not(HasSubstr("does not fit"))));
}

}  // namespace
}  // namespace composer
