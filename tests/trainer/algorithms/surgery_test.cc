// Tests algorithms that change the model: in runs on one rank and two, sharded or not, resumed, and loaded by runs that
// do not name them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/surgery_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/init/change_model.h"
#include "trainer/init/construct_model.h"
#include "trainer/models/mlp.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct SurgeryMesh {
  const char* name;
  int ranks;
  std::optional<ShardingStrategy> strategy;
};
constexpr SurgeryMesh kSurgeryMeshes[] = {
    {"1 rank", 1, std::nullopt}, {"2 ranks", 2, std::nullopt}, {"FULL_SHARD", 2, kFull}, {"SHARD_GRAD_OP", 2, kGradOp}};

using ChangeRun = std::function<void(TrainerOptions&)>;

RunResult TrainOnMesh(const SurgeryMesh& mesh, const std::function<TrainerOptions()>& make) {
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = make();
    if (mesh.strategy) options.fsdp.emplace().strategy = *mesh.strategy;
    return options;
  })[0];
}

TrainerOptions SurgeryRun(const std::string& folder, int64_t batches) {
  TrainerOptions options = ImageRun(folder, batches);
  options.algorithms.push_back(SmallExcite());
  options.algorithms.push_back(SmallBlur());
  return options;
}

std::vector<std::string> NamesOf(const RunResult& result) {
  std::vector<std::string> names;
  for (const auto& item : result.tensors) names.push_back(item.first);
  return names;
}

TEST(Surgery, TrainsTheSameOnEveryMeshAndResumesBitForBit) {
  const RunResult expected = TrainOnMesh(kSurgeryMeshes[1], [&] { return SurgeryRun("", 10); });
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_THAT(NamesOf(expected),
              testing::IsSupersetOf({"layer2.0.conv1.conv.conv.weight", "layer2.0.conv1.se.pool_and_mlp.2.weight",
                                     "layer2.0.downsample.0.conv.conv.weight", "layer2.0.conv1.conv.blur_filter",
                                     "conv1.weight"}));
  const RunResult first = TrainOnMesh(kSurgeryMeshes[1], [&] { return SurgeryRun("", 1); });
  for (size_t i = 0; i < first.tensors.size(); ++i) {
    if (first.tensors[i].first.find("se.") == std::string::npos) continue;
    EXPECT_FALSE(first.tensors[i].second.equal(expected.tensors[i].second)) << first.tensors[i].first;
  }
  for (const SurgeryMesh& mesh : kSurgeryMeshes) {
    SCOPED_TRACE(mesh.name);
    const TempDir whole, parts;
    const RunResult undisturbed = TrainOnMesh(mesh, [&] { return SurgeryRun(whole.path(), 10); });
    ASSERT_TRUE(undisturbed.status.ok()) << undisturbed.status;
    // On one rank batch norm sees other samples.
    for (size_t i = 0; i < 10 && mesh.ranks == 2; ++i)
      EXPECT_NEAR(undisturbed.losses[i], expected.losses[i], 1e-5 * expected.losses[i]);
    ASSERT_TRUE(TrainOnMesh(mesh, [&] { return SurgeryRun(parts.path(), 5); }).status.ok());
    RunResult resumed = TrainOnMesh(mesh, [&] { return SurgeryRun(parts.path(), 10); });
    EXPECT_FALSE(resumed.resumed_from.empty());
    resumed.losses.insert(resumed.losses.begin(), undisturbed.losses.begin(), undisturbed.losses.begin() + 5);
    ExpectSameBits(resumed, undisturbed);
  }
}

// Makes what the job's names make (job/job_algorithms.h).
absl::StatusOr<std::unique_ptr<Algorithm>> MakeByKey(const AlgorithmOrigin& origin) {
  if (origin.key == "squeeze_excite" && origin.arguments == "{\"latent_channels\":4,\"min_channels\":16}")
    return SmallExcite();
  if (origin.key == "blurpool" && origin.arguments == "null") return SmallBlur();
  return absl::InvalidArgumentError("`" + origin.key + "` is unknown");
}

// The run of SurgeryRun, its algorithms made from a file.
TrainerOptions NamedRun(const std::string& folder, int64_t batches) {
  TrainerOptions options = SurgeryRun(folder, batches);
  options.algorithms[0]->SetOrigin({"squeeze_excite", R"({"latent_channels": 4, "min_channels": 16})", ""});
  options.algorithms[1]->SetOrigin({"blurpool", "null", ""});
  options.make_algorithm = MakeByKey;
  return options;
}

TrainerOptions WithoutNames(TrainerOptions options) {
  options.algorithms.clear();
  return options;
}

TEST(RequiredOnLoad, AResumedRunThatNamesNoneHasThem) {
  for (const SurgeryMesh& mesh : kSurgeryMeshes) {
    SCOPED_TRACE(mesh.name);
    const TempDir whole, parts;
    const RunResult undisturbed = TrainOnMesh(mesh, [&] { return NamedRun(whole.path(), 10); });
    ASSERT_TRUE(TrainOnMesh(mesh, [&] { return NamedRun(parts.path(), 5); }).status.ok());
    // Once more, since the algorithms that were added are saved in turn.
    ASSERT_TRUE(TrainOnMesh(mesh, [&] { return WithoutNames(NamedRun(parts.path(), 8)); }).status.ok());
    RunResult resumed = TrainOnMesh(mesh, [&] { return WithoutNames(NamedRun(parts.path(), 10)); });
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    resumed.losses.insert(resumed.losses.begin(), undisturbed.losses.begin(), undisturbed.losses.begin() + 8);
    ExpectSameBits(resumed, undisturbed);
  }
}

TEST(RequiredOnLoad, WeightsAloneNeedThemToo) {
  const TempDir saved, weights;
  const auto from = [&](const std::string& path, ChangeRun change = {}) {
    TrainerOptions options = WithoutNames(NamedRun("", 1));
    options.load.load_path = path;
    options.load.load_weights_only = true;
    if (change) change(options);
    return Train(std::move(options));
  };
  TrainerOptions run = NamedRun(saved.path(), 5);
  run.checkpoint_savers.push_back({.save_folder = weights.path(), .save_weights_only = true});
  const RunResult before = Train(std::move(run));
  ASSERT_TRUE(before.status.ok()) << before.status;
  for (const TempDir* folder : {&saved, &weights}) {
    const RunResult result = from(folder->path());
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(NamesOf(result), NamesOf(before));
    EXPECT_TRUE(result.tensors[3].second.sub(before.tensors[3].second).abs().max().item<double>() < 0.1);
  }
  const RunResult excluded = from(saved.path(), [](TrainerOptions& options) {
    options.load.load_exclude_algorithms = {"SqueezeExcite", "BlurPool"};
  });
  EXPECT_THAT(excluded.status.message(), HasSubstr("layer1.0.conv1.se.pool_and_mlp.2.weight"));
}

TEST(RequiredOnLoad, WhatCannotBeMadeIsTheUsersErrorWithItsName) {
  const TempDir folder;
  TrainerOptions run = NamedRun(folder.path(), 5);
  run.algorithms.push_back(std::make_unique<ChangeBy>([](Model&) {}, "Mine", /*required=*/true));
  run.algorithms.back()->SetOrigin({"mine", "null", "libmine.so"});
  ASSERT_TRUE(Train(std::move(run)).status.ok());
  const absl::Status unknown = Train(WithoutNames(NamedRun(folder.path(), 10))).status;
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument) << unknown;
  EXPECT_THAT(unknown.message(), HasSubstr("needs Mine of plugin libmine.so (see `plugins`)"));
  EXPECT_THAT(unknown.message(), HasSubstr("`mine` is unknown"));
  EXPECT_THAT(unknown.message(), HasSubstr("load_exclude_algorithms: [Mine]"));
  TrainerOptions cannot = WithoutNames(NamedRun(folder.path(), 10));
  cannot.make_algorithm = nullptr;
  EXPECT_THAT(Train(std::move(cannot)).status.message(), HasSubstr("needs SqueezeExcite, which changed its model"));
  // A folder without such algorithms asks for nothing.
  const TempDir plain;
  ASSERT_TRUE(Train(ImageRun(plain.path(), 5)).status.ok());
  EXPECT_EQ(NewestCheckpoint(plain.path()).small.count("required_algorithms"), 0u);
  EXPECT_TRUE(Train(ImageRun(plain.path(), 10)).status.ok());
}

// parity.md Y2: the first Linear replaced, by torch's own means, when the model is made and after that.
TEST(ReplacedLayers, AreTrainedOrRefused) {
  for (const SurgeryMesh& mesh : kSurgeryMeshes) {
    SCOPED_TRACE(mesh.name);
    const auto replace = [](Model& model) {
      auto linear = std::make_shared<LinearLayer>(8, 16);
      const torch::NoGradGuard no_grad;
      linear->weight.fill_(0.05);
      linear->bias.fill_(0.1);
      model.named_children()["layers"]->replace_module("0", std::move(linear));
    };
    const auto make = [] {
      TrainerOptions options = SmallRun();
      options.model = nullptr;
      options.make_model = [] { return MakeMlp({8, 16, 4}); };
      return options;
    };
    const RunResult trained = TrainOnMesh(mesh, [&] {
      TrainerOptions options = make();
      options.algorithms.push_back(std::make_unique<ChangeBy>(replace));
      return options;
    });
    ASSERT_TRUE(trained.status.ok()) << trained.status;
    EXPECT_EQ(trained.tensors[0].first, "layers.0.weight");
    const at::Tensor moved = trained.tensors[0].second - 0.05;
    EXPECT_GT(moved.abs().min().item<double>(), 0);
    EXPECT_LT(moved.abs().max().item<double>(), 0.25);
    const RunResult late = TrainOnMesh(mesh, [&] {
      TrainerOptions options = make();
      AddCallback(options, {Event::kInit}, [&](State& state) { replace(*state.model); });
      return options;
    });
    if (!mesh.strategy) {
      ExpectSameBits(late, trained);
      continue;
    }
    EXPECT_EQ(late.status.code(), absl::StatusCode::kInvalidArgument) << late.status;
    EXPECT_THAT(late.status.message(),
                HasSubstr("parameter layers.0.weight was replaced after the optimizer was made"));
  }
}

TrainerOptions GptRun(Precision precision, bool low, const std::string& folder, int64_t batches) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [] { return MakeGpt(SmallGpt(true)); };
  options.make_optimizer = MakeGptAdamW;
  options.train.dataset = Sentences(21);
  options.train.global_train_batch_size = 6;
  options.precision = precision;
  options.max_duration = Time::Batches(batches);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  if (low) options.algorithms.push_back(std::make_unique<LowPrecisionLayerNorm>());
  return options;
}

TEST(LowPrecisionLayerNormRuns, ChangeNumbersButNoNamesUnderAutocastOnly) {
  for (const SurgeryMesh& mesh : kSurgeryMeshes) {
    SCOPED_TRACE(mesh.name);
    const auto train = [&](Precision precision, bool low) {
      return TrainOnMesh(mesh, [&] { return GptRun(precision, low, "", 6); });
    };
    ExpectSameBits(train(Precision::kFp32, true), train(Precision::kFp32, false));
    const RunResult low = train(Precision::kAmpBf16, true), usual = train(Precision::kAmpBf16, false);
    ASSERT_TRUE(low.status.ok()) << low.status;
    EXPECT_EQ(NamesOf(low), NamesOf(usual));
    EXPECT_NE(low.losses, usual.losses);
    for (size_t i = 0; i < low.losses.size(); ++i) EXPECT_NEAR(low.losses[i], usual.losses[i], 2e-2);
    const TempDir folder;
    const auto saved = [&](int64_t batches) {
      return TrainOnMesh(mesh, [&] { return GptRun(Precision::kAmpBf16, true, folder.path(), batches); });
    };
    ASSERT_TRUE(saved(3).status.ok());
    RunResult resumed = saved(6);
    resumed.losses.insert(resumed.losses.begin(), low.losses.begin(), low.losses.begin() + 3);
    ExpectSameBits(resumed, low);
  }
}

TEST(SurgeryAndTensorParallelism, WhatThePlanDoesNotKnowIsRefusedAtStart) {
  const auto train = [](Precision precision) {
    return TrainOnRanks(2,
                        [&](int) {
                          TrainerOptions options = GptRun(precision, true, "", 2);
                          options.tensor_parallel_degree = 2;
                          options.split_model = [](const Model& whole, Communicator& group) {
                            return MakeTensorParallelGpt(SmallGpt(true), whole, group);
                          };
                          return options;
                        })[0]
        .status;
  };
  const absl::Status refused = train(Precision::kAmpBf16);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(refused.message(),
              HasSubstr("LowPrecisionLayerNorm changes layer transformer.blocks.0.ln_1, and the plan "
                        "by which tensor_parallel_degree 2 splits"));
  EXPECT_TRUE(train(Precision::kFp32).ok());  // there it changes nothing
}

TEST(ChangedModels, AreMadeWithoutMemoryLikeOthers) {
  const auto blur = SmallBlur(), excite = SmallExcite();
  LowPrecisionLayerNorm low;
  const std::vector<Algorithm*> algorithms = {blur.get(), excite.get(), &low};
  const ModelContext context{Precision::kAmpBf16, at::kCPU};
  for (const auto& make : {ImageRun("", 1).make_model, GptRun(Precision::kFp32, false, "", 1).make_model}) {
    const ConstructedModel made = ConstructModel(WithChanges(make, algorithms, context, 1), 17);
    EXPECT_NE(made.init, nullptr) << made.whole_because;
    for (const auto& item : made.model->named_parameters()) EXPECT_TRUE(item.value().is_meta()) << item.key();
  }
}

TEST(OrderOfChanges, IsThatOfThePasses) {
  std::vector<std::unique_ptr<Algorithm>> algorithms;
  algorithms.push_back(std::make_unique<LowPrecisionLayerNorm>());
  algorithms.push_back(SmallBlur());
  algorithms.push_back(SmallExcite());
  const auto names = [&](const std::vector<PlacedPass>& placed) {
    std::vector<std::string> found;
    for (const Algorithm* algorithm : OrderOfChanges(algorithms, placed)) found.push_back(algorithm->name());
    return found;
  };
  EXPECT_THAT(names({}), ElementsAre("BlurPool", "SqueezeExcite", "LowPrecisionLayerNorm"));
  const auto reverse = [](AlgorithmList list, Event) {
    std::reverse(list.begin(), list.end());
    return list;
  };
  EXPECT_THAT(names({{reverse, -1}}), ElementsAre("LowPrecisionLayerNorm", "SqueezeExcite", "BlurPool"));
}

}  // namespace
}  // namespace composer
