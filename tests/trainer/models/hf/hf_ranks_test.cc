// Families train on two ranks, sharded or split, as on one rank, from the folder's weights; checkpoints say what the
// model is.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <torch/types.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "checkpoint/tools/hf_export.h"
#include "checkpoint/tools/tools.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/models/hf/hf_golden.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/algorithms/surgery/alibi.h"
#include "trainer/algorithms/surgery/gated_linear_units.h"
#include "trainer/tokenizers/byte_tokenizer.h"

namespace composer {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The rows of the golden's batch, four times.
TrainerOptions RunOf(const std::string& name, const std::string& folder = "") {
  HfGolden golden(name);
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [name] { return LoadHfModel({.path = GoldenFolder(name)}); };
  const at::Tensor inputs = torch::cat(std::vector<at::Tensor>(4, golden.batch.inputs));
  at::Tensor targets = golden.batch.targets;
  targets = targets.dim() == 1 ? targets.repeat({4}) : targets.repeat({4, 1});
  targets.select(0, 3).copy_(targets.select(0, 2));
  options.train.dataset = MakeTensorRows(inputs, targets);
  options.train.global_train_batch_size = 8;
  options.accumulate_train_batch_on_tokens = targets.dim() == 2;  // rows have different numbers of targets
  options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1e-3); };
  options.max_duration = Time::Batches(4);
  if (!folder.empty()) {
    options.save.save_folder = folder;
    options.save.save_interval = Time::Batches(4);
  }
  return options;
}

// AdamW makes whole steps of the rounding of gradients that are zero otherwise, such as those of the keys' biases.
void ExpectAlike(const RunResult& a, const RunResult& b) {
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i] / b.losses[i], 1, 1e-5) << i;
  EXPECT_LE(RelativeError(a, b), 5e-4);
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
                         testing::Values("bert", "bert_mlm", "roberta", "gpt2", "llama", "qwen3", "mixtral", "mpt",
                                         "vit"),
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

// Whole tensors are saved, of transposed and fused layers, too.
TEST_P(SplitOnTwoRanks, GoesOnWithAnotherDegree) {
  const RunResult whole = Train(RunOf(GetParam()));
  const std::string type = *ReadHfModelType({.path = GoldenFolder(GetParam())});
  const auto run = [&](int degree, const TempDir& dir, int64_t batches) {
    return TrainOnRanks(degree, [&](int) {
      TrainerOptions options = RunOf(GetParam(), dir.path());
      options.save.save_interval = options.max_duration = Time::Batches(batches);
      options.tensor_parallel_degree = degree;
      if (degree > 1) options.layer_plan = *HfLayerPlan(type);
      return options;
    })[0];
  };
  for (const auto& [before, after] : {std::pair(2, 1), std::pair(1, 2)}) {
    const TempDir dir;
    RunResult first = run(before, dir, 2), rest = run(after, dir, 4);
    ASSERT_FALSE(rest.resumed_from.empty());
    rest.losses.insert(rest.losses.begin(), first.losses.begin(), first.losses.end());
    ExpectAlike(rest, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Hf, SplitOnTwoRanks,
                         testing::Values("bert", "bert_mlm", "roberta_mlm", "gpt2", "llama", "llama_linear", "mistral",
                                         "mistral_window", "qwen2", "qwen3", "mixtral", "mpt", "vit"),
                         [](const auto& info) { return std::string(info.param); });

// FSDP of the parts, in blocks that are computed again in backward.
TEST(SplitOnFourRanks, ShardsTheParts) {
  for (const char* name : {"gpt2", "mpt", "qwen3"}) {
    SCOPED_TRACE(name);
    const RunResult one = Train(RunOf(name));
    const auto results = TrainOnRanks(4, [&](int) {
      TrainerOptions options = RunOf(name);
      options.tensor_parallel_degree = 2;
      options.layer_plan = *HfLayerPlan(name);
      options.fsdp.emplace().strategy = ShardingStrategy::kFullShard;
      options.activations.checkpoint.every = 1;
      return options;
    });
    for (const RunResult& result : results) ExpectAlike(result, one);
  }
}

TEST(HfCheckpoint, SaysWhatTheModelIs) {
  const TempDir dir;
  ASSERT_TRUE(Train(RunOf("bert", dir.path())).status.ok());
  const StateDict saved = NewestCheckpoint(dir.path());
  ASSERT_TRUE(saved.small.contains(kHuggingFaceKey));
  EXPECT_THAT(saved.small.at(kHuggingFaceKey), HasSubstr("BertForSequenceClassification"));
  EXPECT_THAT(saved.small.at(kHuggingFaceKey), HasSubstr("tests/golden/hf/bert"));
}

// What a checkpoint exports is a folder of the same model, and the tokenizer's files come along.
TEST(HfExport, WritesAFolderThatLoadsAgain) {
  const TempDir from, dir, out;
  for (const char* file : {"config.json", "model.safetensors"})
    ASSERT_TRUE(AtomicWriteFile(from.path() + "/" + file, *ReadFile(GoldenFolder("bert") + "/" + file)).ok());
  ASSERT_TRUE(AtomicWriteFile(from.path() + "/vocab.txt", "[PAD]\n").ok());
  TrainerOptions options = RunOf("bert", dir.path());
  options.make_model = [&] { return LoadHfModel({.path = from.path()}); };
  const RunResult trained = Train(std::move(options));
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  const auto tool = [&](std::vector<std::string> args) {
    std::ostringstream text, errors;
    const int code = RunCheckpointTool(args, nullptr, absl::Now(), text, errors);
    return absl::StrCat(code, " ", text.str(), errors.str());
  };
  EXPECT_THAT(tool({"export", dir.path(), out.path(), "--hf"}), StartsWith("0 "));
  EXPECT_EQ(*ReadFile(out.path() + "/vocab.txt"), "[PAD]\n");
  const auto again = LoadHfModel({.path = out.path()})->named_parameters();
  ASSERT_EQ(again.size(), trained.tensors.size());
  for (const auto& [name, tensor] : trained.tensors) EXPECT_TRUE(again[name].equal(tensor)) << name;
  EXPECT_THAT(tool({"export", dir.path(), out.path(), "--hf"}), HasSubstr("--overwrite"));
  EXPECT_THAT(tool({"export", dir.path(), out.path(), "--hf", "--overwrite", "--dtype", "bf16"}), StartsWith("0 "));
  EXPECT_THAT(*ReadFile(out.path() + "/config.json"), HasSubstr("\"dtype\": \"bfloat16\""));
}

TEST(HfExport, RefusesWhatTransformersHasNoClassFor) {
  const TempDir dir, other, out;
  TrainerOptions options = RunOf("gpt2", dir.path());
  options.algorithms.push_back(std::make_unique<Alibi>(AlibiOptions{16, 1.0}));
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  TrainerOptions mlp = SmallRun();
  mlp.save.save_folder = other.path();
  ASSERT_TRUE(Train(std::move(mlp)).status.ok());
  std::ostringstream text, errors;
  EXPECT_NE(RunCheckpointTool({"export", dir.path(), out.path(), "--hf"}, nullptr, absl::Now(), text, errors), 0);
  EXPECT_THAT(errors.str(), HasSubstr("algorithms have changed the model"));
  EXPECT_NE(RunCheckpointTool({"export", other.path(), out.path(), "--hf"}, nullptr, absl::Now(), text, errors), 0);
  EXPECT_THAT(errors.str(), HasSubstr("none of Hugging Face's families"));
}

// With symmetric biases in place of positions, a text that is turned round has its states turned round.
TEST(HfSurgery, AlibiAndGatesFitBert) {
  const auto model = LoadHfModel({.path = GoldenFolder("bert_features")});
  const ModelContext context{};
  ASSERT_TRUE(Alibi({20, 1.0}).ChangeModel(*model, context).ok());
  Batch batch = HfGolden("bert_features").batch;
  batch.inputs = torch::arange(20).unsqueeze(0);
  batch.extra.clear();
  const at::Tensor states = model->forward(batch)["outputs"];
  batch.inputs = batch.inputs.flip(1);
  EXPECT_LE(RelativeDifference(model->forward(batch)["outputs"].flip(1), states), 1e-5);
  ASSERT_TRUE(GatedLinearUnits(GatedLinearUnitsOptions{}).ChangeModel(*model, context).ok());
  EXPECT_EQ(FindLayers(*model, LayersOfType<GatedLinear>()).size(), 2);
  EXPECT_GT(RelativeDifference(model->forward(batch)["outputs"].flip(1), states), 1e-3);
}

TEST(HfVocabulary, MustHoldTheTokenizers) {
  TrainerOptions options = RunOf("bert");
  options.tokenizer = std::make_shared<ByteTokenizer>();
  EXPECT_THAT(Train(std::move(options)).status.message(),
              HasSubstr("model.vocab_size: the model has 61 tokens, the tokenizer bytes 256"));
}

}  // namespace
}  // namespace composer
