// Families train on two ranks, sharded or split, as on one rank, from the folder's weights; checkpoints say what the
// model is.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "checkpoint/tools/hf_export.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/models/hf/hf_golden.h"
#include "tests/trainer/parallel/fsdp_runs.h"

namespace composer {
namespace {

using testing::HasSubstr;

// The rows of the golden's batch, four times.
TrainerOptions RunOf(const std::string& name, const std::string& folder = "") {
  HfGolden golden(name);
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [name] { return LoadHfModel({.path = GoldenFolder(name)}); };
  const at::Tensor inputs = golden.batch.inputs.repeat({4, 1});
  at::Tensor targets = golden.batch.targets;
  targets = targets.dim() == 1 ? targets.repeat({4}) : targets.repeat({4, 1});
  targets.select(0, 3).copy_(targets.select(0, 2));
  options.train.dataset = MakeTensorRows(inputs, targets);
  options.train.global_train_batch_size = 8;
  options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1e-3); };
  options.max_duration = Time::Batches(4);
  if (!folder.empty()) {
    options.save.save_folder = folder;
    options.save.save_interval = Time::Batches(4);
  }
  return options;
}

void ExpectAlike(const RunResult& a, const RunResult& b) {
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i] / b.losses[i], 1, 1e-5) << i;
  EXPECT_LE(RelativeError(a, b), 1e-4);
}

class OnTwoRanks : public testing::TestWithParam<const char*> {};

TEST_P(OnTwoRanks, FullShardTrainsAsOneRank) {
  const RunResult one = Train(RunOf(GetParam()));
  ASSERT_TRUE(one.status.ok()) << one.status;
  EXPECT_LT(one.losses.back(), one.losses.front());
  for (const bool checkpoints : {false, true}) {
    const auto results = TrainOnRanks(2, [&](int) {
      TrainerOptions options = RunOf(GetParam());
      options.fsdp.emplace().strategy = ShardingStrategy::kFullShard;
      options.activations.checkpoint.every = checkpoints ? 1 : 0;
      return options;
    });
    for (const RunResult& result : results) ExpectAlike(result, one);
  }
}

INSTANTIATE_TEST_SUITE_P(Hf, OnTwoRanks,
                         testing::Values("bert", "bert_mlm", "roberta", "gpt2", "llama", "qwen3", "mixtral", "mpt"),
                         [](const auto& info) { return std::string(info.param); });

class SplitOnTwoRanks : public testing::TestWithParam<const char*> {};

TEST_P(SplitOnTwoRanks, TrainsAsOneRank) {
  const RunResult one = Train(RunOf(GetParam()));
  const std::string type = *ReadHfModelType({.path = GoldenFolder(GetParam())});
  const auto results = TrainOnRanks(2, [&](int) {
    TrainerOptions options = RunOf(GetParam());
    options.tensor_parallel_degree = 2;
    options.layer_plan = *HfLayerPlan(type);
    return options;
  });
  for (const RunResult& result : results) ExpectAlike(result, one);
}

INSTANTIATE_TEST_SUITE_P(Hf, SplitOnTwoRanks,
                         testing::Values("bert", "bert_mlm", "roberta_mlm", "llama", "llama_linear", "mistral", "qwen2",
                                         "mixtral"),
                         [](const auto& info) { return std::string(info.param); });

TEST(HfPlan, OthersAreRefused) {
  for (const char* type : {"gpt2", "mpt", "qwen3"})
    EXPECT_THAT(HfLayerPlan(type).status().message(), HasSubstr(std::string("a model of type `") + type));
}

TEST(HfCheckpoint, SaysWhatTheModelIs) {
  const TempDir dir;
  ASSERT_TRUE(Train(RunOf("bert", dir.path())).status.ok());
  const StateDict saved = NewestCheckpoint(dir.path());
  ASSERT_TRUE(saved.small.contains(kHuggingFaceKey));
  EXPECT_THAT(saved.small.at(kHuggingFaceKey), HasSubstr("BertForSequenceClassification"));
  EXPECT_THAT(saved.small.at(kHuggingFaceKey), HasSubstr("tests/golden/hf/bert"));
}

}  // namespace
}  // namespace composer
