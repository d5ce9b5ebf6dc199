// LoRA beside huggingface/peft (tools/make_lora_goldens.py): logits, gradients, adapters; what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/lora.h"

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/time/clock.h"
#include "base/file.h"
#include "checkpoint/tools/tools.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/models/hf/hf_golden.h"
#include "tests/trainer/parallel/fsdp_runs.h"

namespace composer {
namespace {

using testing::HasSubstr;

absl::Status Apply(Model& model, const LoraOptions& options) {
  return Lora(options).ChangeModel(model, {Precision::kFp32});
}

class AdapterOf : public testing::TestWithParam<const char*> {};

TEST_P(AdapterOf, ComputesWhatPeftComputes) {
  const std::string name = GetParam(), folder = GoldenFolder(name + "_lora");
  HfGolden golden(name + "_lora");
  const std::shared_ptr<Model> model = LoadHfModel({.path = GoldenFolder(name)});
  const absl::Status applied = Apply(*model, {.adapter = folder});
  ASSERT_TRUE(applied.ok()) << applied;
  const at::Tensor logits = model->forward(golden.batch).tensor();
  EXPECT_LT(RelativeDifference(logits, golden.tensors.at("logits")), 1e-5);
  torch::nn::functional::cross_entropy(logits.flatten(0, -2), golden.batch.targets.flatten()).backward();
  size_t trained = 0;
  for (const auto& item : model->named_parameters()) {
    if (!item.value().requires_grad()) {
      EXPECT_FALSE(item.value().grad().defined()) << item.key();
      continue;
    }
    ++trained;
    ASSERT_TRUE(golden.tensors.contains("grad/" + item.key())) << item.key();
    EXPECT_LT(RelativeDifference(item.value().grad(), golden.tensors.at("grad/" + item.key())), 1e-4) << item.key();
  }
  const size_t gradients = std::count_if(golden.tensors.begin(), golden.tensors.end(),
                                         [](const auto& item) { return item.first.starts_with("grad/"); });
  EXPECT_EQ(trained, gradients);
}

INSTANTIATE_TEST_SUITE_P(Lora, AdapterOf, testing::Values("llama", "gpt2", "bert"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Lora, BeginsAsTheModelWas) {
  HfGolden golden("llama");
  const std::shared_ptr<Model> model = LoadHfModel({.path = GoldenFolder("llama")});
  ASSERT_TRUE(Apply(*model, {.r = 4, .lora_alpha = 32, .target_modules = {"all-linear"}}).ok());
  EXPECT_LT(RelativeDifference(model->forward(golden.batch).tensor(), golden.tensors.at("logits")), 1e-5);
  EXPECT_EQ(FindLayers(*model, LayersOfType<LoraLayer>()).size(), 14u) << "seven of each block, not lm_head";
}

TEST(Lora, ChoosesByNameEndAndPattern) {
  const auto count = [](std::vector<std::string> targets) {
    const std::shared_ptr<Model> model = LoadHfModel({.path = GoldenFolder("llama")});
    const absl::Status status = Apply(*model, {.target_modules = std::move(targets)});
    EXPECT_TRUE(status.ok()) << status;
    return FindLayers(*model, LayersOfType<LoraLayer>()).size();
  };
  EXPECT_EQ(count({"q_proj", "lm_head"}), 3u);
  EXPECT_EQ(count({"model.layers.1.self_attn.q_proj"}), 1u);
  EXPECT_EQ(count({"*.layers.0.*_proj", "k_proj"}), 8u);
}

TEST(Lora, NamesWhatDoesNotFit) {
  const auto refusal = [](const LoraOptions& options) {
    const absl::Status status = Apply(*LoadHfModel({.path = GoldenFolder("llama")}), options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({.target_modules = {"q_prj"}}), HasSubstr("no layer `q_prj` (did you mean `q_proj`?)"));
  EXPECT_THAT(refusal({.target_modules = {"norm"}}), HasSubstr("is not a linear layer"));
  EXPECT_THAT(refusal({.target_modules = {"q_proj"}, .modules_to_save = {"head"}}), HasSubstr("no layer `head`"));
  EXPECT_THAT(refusal({.adapter = GoldenFolder("bert_lora")}), HasSubstr("no layer `query`"));
}

class AdapterFolder : public testing::Test {
 protected:
  std::string Refusal(const std::function<void(nlohmann::json&)>& change) {
    auto config = nlohmann::json::parse(*ReadFile(GoldenFolder("llama_lora/adapter_config.json")));
    change(config);
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("adapter_config.json"), config.dump()).ok());
    return std::string(ReadLoraAdapter({.adapter = dir_.path()}).status().message());
  }
  TempDir dir_;
};

TEST_F(AdapterFolder, NamesTheFieldThatIsNotSupported) {
  const auto set = [](const char* field, const nlohmann::json& value) {
    return [=](nlohmann::json& config) { config[field] = value; };
  };
  EXPECT_EQ(Refusal([](nlohmann::json&) {}), "");
  EXPECT_THAT(Refusal(set("peft_type", "LOHA")), HasSubstr("`peft_type` is \"LOHA\"; supported is LORA"));
  EXPECT_THAT(Refusal(set("use_dora", true)), HasSubstr("`use_dora` is true"));
  EXPECT_THAT(Refusal(set("init_lora_weights", "pissa")), HasSubstr("`init_lora_weights` is \"pissa\""));
  EXPECT_THAT(Refusal(set("new_field", 3)), HasSubstr("`new_field` is 3; supported is null"));
  EXPECT_THAT(Refusal(set("bias", "all")), HasSubstr("`bias` is \"all\"; supported is none"));
  EXPECT_THAT(Refusal(set("rank_pattern", {{"q_proj", 4}})), HasSubstr("`rank_pattern`"));
  EXPECT_THAT(Refusal(set("r", 0)), HasSubstr("`r` is 0; supported is a whole number from 1"));
  EXPECT_THAT(Refusal(set("lora_alpha", "8")), HasSubstr("`lora_alpha`"));
  EXPECT_THAT(Refusal(set("target_modules", ".*_proj")), HasSubstr("a list of names"));
  EXPECT_THAT(Refusal(set("target_modules", nullptr)), HasSubstr("`target_modules` is null"));
  EXPECT_THAT(ReadLoraAdapter({.adapter = "/nowhere"}).status().message(), HasSubstr("/nowhere"));
}

TrainerOptions LoraRun(const std::string& folder, int64_t batches) {
  HfGolden golden("llama");
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [] { return LoadHfModel({.path = GoldenFolder("llama")}); };
  options.train.dataset =
      MakeTensorRows(golden.batch.inputs.repeat({8, 1}), golden.batch.targets.clamp_min(0).repeat({8, 1}));
  options.train.global_train_batch_size = 8;
  options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1e-2); };
  options.algorithms.push_back(std::make_unique<Lora>(LoraOptions{.r = 2, .target_modules = {"q_proj", "down_proj"}}));
  options.algorithms.back()->SetOrigin({"lora", "null", ""});
  options.make_algorithm = [](const AlgorithmOrigin&) {
    return std::make_unique<Lora>(LoraOptions{.r = 2, .target_modules = {"q_proj", "down_proj"}});
  };
  options.max_duration = Time::Batches(8);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(4);
  AddCallback(options, {Event::kBatchEnd}, [batches](State& state) {
    if (state.timestamp.batch >= batches) state.StopTraining();
  });
  return options;
}

TEST(LoraRuns, EveryStrategyTrainsAsOneRankAndResumes) {
  const TempDir alone;
  const RunResult one = Train(LoraRun(alone.path(), 8));
  ASSERT_TRUE(one.status.ok()) << one.status;
  EXPECT_LT(one.losses.back(), one.losses.front());
  for (const ShardingStrategy strategy :
       {ShardingStrategy::kFullShard, ShardingStrategy::kShardGradOp, ShardingStrategy::kNoShard}) {
    for (const bool recompute : {false, true}) {
      const TempDir parts;
      const auto train = [&](int64_t batches) {
        return TrainOnRanks(2, [&](int) {
          TrainerOptions options = LoraRun(parts.path(), batches);
          options.fsdp.emplace().strategy = strategy;
          options.activations.checkpoint.every = recompute ? 1 : 0;
          return options;
        })[0];
      };
      ASSERT_TRUE(train(4).status.ok());
      const RunResult resumed = train(8);
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_FALSE(resumed.resumed_from.empty());
      ASSERT_EQ(resumed.losses.size(), 4u);
      for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(resumed.losses[i], one.losses[i + 4], 1e-4) << i;
      EXPECT_LT(RelativeError(resumed, one), 1e-3);
    }
  }
}

TEST(LoraRuns, CheckpointsAreMergedOrGiveAnAdapter) {
  const TempDir run, merged, adapter;
  ASSERT_TRUE(Train(LoraRun(run.path(), 8)).status.ok());
  const auto tool = [&](std::vector<std::string> arguments) {
    std::ostringstream out, err;
    EXPECT_EQ(RunCheckpointTool(arguments, nullptr, absl::Now(), out, err), 0) << err.str();
  };
  tool({"export", run.path(), merged.Path("m"), "--hf"});
  tool({"export", run.path(), adapter.Path("a"), "--adapter"});
  HfGolden golden("llama");
  const std::shared_ptr<Model> whole = LoadHfModel({.path = merged.Path("m")}),
                               base = LoadHfModel({.path = GoldenFolder("llama")});
  const absl::Status applied = Apply(*base, {.adapter = adapter.Path("a")});
  ASSERT_TRUE(applied.ok()) << applied;
  const at::Tensor expected = base->forward(golden.batch).tensor();
  EXPECT_LT(RelativeDifference(whole->forward(golden.batch).tensor(), expected), 1e-5);
  EXPECT_GT(RelativeDifference(golden.tensors.at("logits"), expected), 1e-2) << "the training changed something";
}

}  // namespace
}  // namespace composer
