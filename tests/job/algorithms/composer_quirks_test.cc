// Tests what composer_compat changes of algorithms.
// SPDX-License-Identifier: Apache-2.0
#include "job/algorithms/composer_quirks.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "job/job_algorithms.h"
#include "tests/job/algorithms/algorithm_cases.h"
#include "tests/trainer/loop/step_runs.h"
#include "trainer/optim/model_params.h"
#include "trainer/optim/recipes.h"
#include "trainer/parallel/norms/gradient_norm.h"

namespace composer {
namespace {

std::unique_ptr<Algorithm> Make(const std::string& key, const std::string& arguments, bool composer_compat) {
  return MakeAlgorithm({key, arguments, ""}, {}, composer_compat).value();
}

std::string After(const std::vector<AlgorithmPass>& passes, absl::string_view names, Event event) {
  AlgorithmList list;
  for (absl::string_view name : absl::StrSplit(names, ' ')) list.push_back({nullptr, name, list.size()});
  for (const AlgorithmPass& pass : passes) list = pass(std::move(list), event);
  return absl::StrJoin(list, " ", [](std::string* out, const NamedAlgorithm& item) {
    out->append(item.name.data(), item.name.size()).append(std::to_string(item.index));
  });
}

// The results are those of mosaicml 0.32.1's Engine with the same lists.
TEST(ComposersQuirks, AfterEventsReverseTheWholeList) {
  struct Row {
    const char* given;
    Event event;
    const char* expected;
  };
  const Row kRows[] = {
      {"A B", Event::kBeforeLoss, "A0 B1"},
      {"A SelectiveBackprop B", Event::kInit, "SelectiveBackprop1 A0 B2"},
      {"A B", Event::kAfterLoss, "B1 A0"},
      {"CutOut SelectiveBackprop ProgressiveResizing", Event::kAfterDataloader,
       "ProgressiveResizing2 CutOut0 SelectiveBackprop1"},
      {"A LowPrecisionLayerNorm B", Event::kAfterLoad, "LowPrecisionLayerNorm1 B2 A0"},
      {"LowPrecisionLayerNorm A SelectiveBackprop B LowPrecisionLayerNorm SelectiveBackprop", Event::kAfterLoad,
       "LowPrecisionLayerNorm4 LowPrecisionLayerNorm0 B3 A1 SelectiveBackprop5 SelectiveBackprop2"},
  };
  const auto passes = WithDefaultPasses({ComposersOrderAfter()});
  for (const Row& row : kRows) EXPECT_EQ(After(passes, row.given, row.event), row.expected) << EventName(row.event);
}

// Samples are mixed with those of their microbatch, by draws of its own.
TEST(ComposersQuirks, MixingIsWithinMicrobatches) {
  for (const char* key : {"mixup", "cutmix"}) {
    SCOPED_TRACE(key);
    const auto run = [&](int64_t microbatch, bool composer_compat, int* left = nullptr) {
      TrainerOptions options = CaseRun(Workload::kPictures, {});
      options.device_train_microbatch_size = microbatch;
      options.algorithms.push_back(Make(key, "null", composer_compat));
      const std::string name = std::string(key) + "/targets";
      if (left != nullptr) {
        AddAlgorithm(options, {Event::kAfterForward}, [left, name](State& state) {
          const auto sorted = [](const at::Tensor& targets) { return std::get<0>(targets.sort()); };
          *left += sorted(state.batch.targets).equal(sorted(state.batch.Get(name))) ? 0 : 1;
        });
      }
      return Train(std::move(options));
    };
    int left = 0;
    const RunResult whole = run(8, true), parts = run(4, true, &left);
    ASSERT_TRUE(parts.status.ok()) << parts.status;
    EXPECT_EQ(left, 0);
    EXPECT_GT(LargestDifference(parts, whole), 1e-3);
    EXPECT_LT(LargestDifference(run(4, false, &left), run(8, false)), 1e-4);
    EXPECT_GT(left, 0) << "without composer_compat samples are mixed with those of other microbatches";
  }
}

TEST(ComposersQuirks, ShardedGradientsAreScaledByTheLargest) {
  const auto run = [](bool sharded, std::unique_ptr<Algorithm> algorithm) {
    TrainerOptions options = SmallRun();
    options.make_optimizer = DecoupledSGDW(0.5, {.momentum = 0.9});
    if (sharded) options.fsdp.emplace();
    options.algorithms.push_back(std::move(algorithm));
    return options;
  };
  const auto clipping = [](bool composer_compat) {
    return Make("gradient_clipping", R"({"clipping_type": "value", "clipping_threshold": 0.01})", composer_compat);
  };
  const auto scaling = [] {
    return std::make_unique<DoAt>(EventSet{Event::kAfterTrainBatch}, [](State& state) {
      ClipGradientsByNorm(ParametersOnce(*state.model), 0.01, state.sharding, std::numeric_limits<double>::infinity());
    });
  };
  const RunResult clipped = Train(run(false, clipping(false))), scaled = Train(run(false, scaling()));
  ASSERT_TRUE(scaled.status.ok()) << scaled.status;
  EXPECT_GT(LargestDifference(scaled, clipped), 1e-3);
  ExpectSameBits(Train(run(false, clipping(true))), clipped);
  const auto sharded = TrainOnRanks(2, [&](int) { return run(true, clipping(true)); });
  ASSERT_TRUE(sharded[0].status.ok()) << sharded[0].status;
  EXPECT_LT(LargestDifference(sharded[0], scaled), 1e-5);
}

// An epoch has 3 batches, so that a run of 8 batches changes its masks as one of 8 epochs.
TEST(ComposersQuirks, GyroDropoutReadsBatchesAsEpochs) {
  const auto run = [](const Time& duration, bool composer_compat) {
    TrainerOptions options = CaseRun(Workload::kPictures, {{"gyro_dropout", "gyro_dropout"}});
    options.algorithms.clear();
    options.algorithms.push_back(Make("gyro_dropout", R"({"sigma": 8, "tau": 1})", composer_compat));
    options.max_duration = duration;
    RunResult result = Train(std::move(options));
    EXPECT_TRUE(result.status.ok()) << result.status;
    result.losses.resize(8);
    return result.losses;
  };
  const std::vector<double> composers = run(Time::Batches(8), true);
  EXPECT_EQ(composers, run(Time::Epochs(8), false));
  EXPECT_NE(composers, run(Time::Batches(8), false));
}

}  // namespace
}  // namespace composer
