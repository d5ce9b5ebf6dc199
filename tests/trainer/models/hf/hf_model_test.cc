// Folders that are read, and folders that are refused by name.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/hf/hf_model.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "checkpoint/format/safetensors.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/models/hf/hf_golden.h"
#include "trainer/core/torch_status.h"
#include "trainer/init/construct_model.h"
#include "trainer/models/hf/hf_weights.h"
#include "trainer/models/hf/timm_vit.h"
#include "trainer/models/hugging_face_model.h"

namespace composer {
namespace {

using testing::Contains;
using testing::HasSubstr;

nlohmann::json ConfigOf(const std::string& name) {
  return nlohmann::json::parse(*ReadFile(GoldenFolder(name) + "/config.json"));
}

absl::Status Load(const HfModelOptions& options) {
  return CatchTorch([&] { LoadHfModel(options); });
}

std::string RefusalOf(const std::string& name, const std::function<void(nlohmann::json&)>& change,
                      HfTaskOptions task = {}) {
  nlohmann::json config = ConfigOf(name);
  change(config);
  const absl::Status status = Load({.config = config.dump(), .task = std::move(task)});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(HfConfig, NamesWhatIsUnsupported) {
  const auto set = [](const char* field, const nlohmann::json& value) {
    return [=](nlohmann::json& config) { config[field] = value; };
  };
  EXPECT_THAT(RefusalOf("bert", set("model_type", "bart")), HasSubstr("config.json: `model_type` is `bart`"));
  EXPECT_THAT(RefusalOf("bert", set("relative_bias", 3)), HasSubstr("unsupported: `relative_bias` (3)"));
  EXPECT_THAT(RefusalOf("bert", set("position_embedding_type", "relative_key")),
              HasSubstr("`position_embedding_type` is \"relative_key\"; supported is only \"absolute\""));
  EXPECT_THAT(RefusalOf("bert", set("hidden_size", "large")),
              HasSubstr("`hidden_size` is \"large\"; it must be a whole"));
  EXPECT_THAT(RefusalOf("bert", set("hidden_size", 1e300)), HasSubstr("`hidden_size` is 1e+300"));
  EXPECT_THAT(RefusalOf("bert", set("num_attention_heads", 3)),
              HasSubstr("must be a multiple of num_attention_heads 3"));
  EXPECT_THAT(RefusalOf("bert", set("hidden_act", "mish")), HasSubstr("hidden_act: `mish`"));
  EXPECT_THAT(RefusalOf("bert", set("architectures", {"BertForQuestionAnswering"})), HasSubstr("say model.task"));
  EXPECT_THAT(RefusalOf("gpt2", set("scale_attn_by_inverse_layer_idx", true)), HasSubstr("supported is only false"));
  EXPECT_THAT(RefusalOf("llama", set("rope_scaling", {{"rope_type", "mrope"}, {"factor", 2.0}})),
              HasSubstr("`rope_scaling.rope_type` is \"mrope\""));
  EXPECT_THAT(RefusalOf("llama", set("rope_scaling", {{"rope_type", "longrope"}, {"factor", 2.0}})),
              HasSubstr("`rope_scaling.short_factor` has 0 numbers, but half of head_dim is 2"));
  EXPECT_THAT(RefusalOf("llama", set("rope_scaling", {{"rope_type", "longrope"}})),
              HasSubstr("needs `factor`, `attention_factor` or"));
  EXPECT_THAT(
      RefusalOf("llama", set("rope_scaling", {{"rope_type", "longrope"}, {"long_factor", {1, 0}}, {"factor", 2}})),
      HasSubstr("`rope_scaling.long_factor` is [1,0]; it must be a list of numbers from"));
  EXPECT_THAT(
      RefusalOf("llama", set("rope_scaling", {{"rope_type", "dynamic"}, {"original_max_position_embeddings", 8}})),
      HasSubstr("`rope_scaling.original_max_position_embeddings` is 8; supported is only 16"));
  EXPECT_THAT(RefusalOf("llama", set("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"odd", 1}})),
              HasSubstr("unsupported: `rope_scaling.odd` (1)"));
  EXPECT_THAT(RefusalOf("llama", set("num_key_value_heads", 3)), HasSubstr("multiple of num_key_value_heads 3"));
  EXPECT_THAT(RefusalOf("qwen3", set("head_dim", 5)), HasSubstr("model.head_dim: 5 must be even"));
  EXPECT_THAT(RefusalOf("mistral", set("sliding_window", 0)), HasSubstr("`sliding_window` is 0; it must be a whole"));
  EXPECT_THAT(RefusalOf("mistral", set("layer_types", {"sliding_attention", "full_attention"})),
              HasSubstr("`sliding_attention`, but by `sliding_window` no layer has a window"));
  EXPECT_THAT(RefusalOf("qwen2_window", set("use_sliding_window", false)),
              HasSubstr("by `sliding_window` and `use_sliding_window` no layer has a window"));
  EXPECT_THAT(RefusalOf("qwen2_window", set("layer_types", {"full_attention"})), HasSubstr("1 entries for 2 layers"));
  EXPECT_THAT(RefusalOf("qwen2_window", set("layer_types", {"full_attention", "chunked_attention"})),
              HasSubstr("has `chunked_attention`; supported are"));
  EXPECT_THAT(RefusalOf("mpt", [](nlohmann::json& config) { config["attn_config"]["qk_ln"] = true; }),
              HasSubstr("`attn_config.qk_ln` is true; supported is only false"));
  EXPECT_THAT(RefusalOf("llama", [](nlohmann::json& config) { config.erase("hidden_size"); }),
              HasSubstr("`hidden_size` is missing"));
  EXPECT_THAT(RefusalOf("llama", [](nlohmann::json&) {}, {.max_seq_len = 17}),
              HasSubstr("max_seq_len: 17 is more than"));
  EXPECT_THAT(Load({.config = "[]"}).message(), HasSubstr("no JSON object"));
  EXPECT_THAT(Load({.config = R"({"a": 1, "a": 2})"}).message(), HasSubstr("config.json"));
  EXPECT_THAT(Load({.path = "/nowhere"}).message(), HasSubstr("/nowhere/config.json"));
}

// A folder whose tensors the test chooses.
class HfFolder : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& file, const HfGolden* /*unused*/ = nullptr) {
    const auto read = ReadWeights(GoldenFolder(name) + "/model.safetensors", "");
    ASSERT_TRUE(read.ok()) << read.status();
    std::vector<std::pair<std::string, at::Tensor>> tensors = read->tensors;
    if (change) change(tensors);
    std::vector<SafetensorsEntry> entries;
    for (const auto& [key, tensor] : tensors)
      entries.push_back({key, tensor.scalar_type() == at::kHalf ? "F16" : "F32", tensor.sizes().vec()});
    std::string bytes = *LayOutSafetensors(&entries);
    for (const SafetensorsEntry& entry : entries) {
      for (const auto& [key, tensor] : tensors) {
        if (key != entry.name) continue;
        const at::Tensor values = tensor.contiguous();
        bytes.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
      }
    }
    ASSERT_TRUE(AtomicWriteFile(dir.path() + "/" + file, bytes).ok());
    ASSERT_TRUE(AtomicWriteFile(dir.path() + "/config.json", ConfigOf(name).dump()).ok());
  }
  absl::Status LoadIt() { return Load({.path = dir.path()}); }

  TempDir dir;
  std::function<void(std::vector<std::pair<std::string, at::Tensor>>&)> change;
};

TEST_F(HfFolder, NamesTensorsThatDoNotFit) {
  change = [](auto& tensors) { tensors.erase(tensors.begin()); };
  Write("bert", "model.safetensors");
  EXPECT_THAT(LoadIt().message(), HasSubstr("model.path: missing: bert."));
  change = [](auto& tensors) { tensors.emplace_back("bert.extra", torch::ones({2})); };
  Write("bert", "model.safetensors");
  EXPECT_THAT(LoadIt().message(), HasSubstr("model.path: unexpected: bert.extra"));
  change = [](auto& tensors) {
    for (auto& [name, tensor] : tensors) {
      if (name == "classifier.weight") tensor = torch::ones({3, 15});
    }
  };
  Write("bert", "model.safetensors");
  EXPECT_THAT(LoadIt().message(), HasSubstr("of another shape: classifier.weight (3x15, the model has 3x16)"));
}

TEST_F(HfFolder, ReadsOldNamesTiedCopiesAnd16Bits) {
  change = [](auto& tensors) {
    for (auto& [name, tensor] : tensors) {
      if (name.ends_with("LayerNorm.weight")) name = name.substr(0, name.size() - 6) + "gamma";
      if (name.ends_with("LayerNorm.bias")) name = name.substr(0, name.size() - 4) + "beta";
      tensor = tensor.to(at::kHalf);
    }
    tensors.emplace_back("cls.predictions.decoder.bias", torch::ones({61}));
    tensors.emplace_back("bert.embeddings.position_ids", torch::ones({1, 12}));
  };
  Write("bert_mlm", "model.safetensors");
  const auto model = LoadHfModel({.path = dir.path()}), full = LoadHfModel({.path = GoldenFolder("bert_mlm")});
  const auto params = full->named_parameters();
  for (const auto& item : model->named_parameters()) {
    EXPECT_EQ(item.value().scalar_type(), at::kFloat);
    EXPECT_TRUE(item.value().equal(params[item.key()].to(at::kHalf).to(at::kFloat))) << item.key();
  }
}

TEST_F(HfFolder, RefusesDamagedFiles) {
  Write("bert", "model.safetensors");
  const std::string path = dir.path() + "/model.safetensors", whole = *ReadFile(path);
  ASSERT_TRUE(AtomicWriteFile(path, whole.substr(0, whole.size() - 4)).ok());
  EXPECT_EQ(LoadIt().code(), absl::StatusCode::kDataLoss) << LoadIt();
  EXPECT_THAT(LoadIt().message(), HasSubstr("model.safetensors"));
  ASSERT_TRUE(AtomicWriteFile(dir.path() + "/model.safetensors.index.json",
                              R"({"weight_map": {"a": "gone-00001-of-00002.safetensors"}})")
                  .ok());
  EXPECT_EQ(LoadIt().code(), absl::StatusCode::kNotFound) << LoadIt();
  ASSERT_TRUE(AtomicWriteFile(path, whole).ok());
  ASSERT_TRUE(AtomicWriteFile(dir.path() + "/other.safetensors", whole).ok());
  ASSERT_TRUE(AtomicWriteFile(dir.path() + "/model.safetensors.index.json",
                              R"({"weight_map": {"a": "model.safetensors", "b": "other.safetensors"}})")
                  .ok());
  EXPECT_THAT(LoadIt().message(), HasSubstr("is in two files"));
}

// The body of one task serves another one, whose head is new.
TEST(HfModel, TakesTheBodyOfAnotherTask) {
  HfTaskOptions task;
  task.has_task = true;
  task.loss.task = TextTask::kTokenClassification;
  task.num_labels = 5;
  const auto from_mlm = LoadHfModel({.path = GoldenFolder("bert_mlm"), .task = task});
  const auto from_bare = LoadHfModel({.path = GoldenFolder("bert_features"), .task = task});
  const auto mlm = LoadHfModel({.path = GoldenFolder("bert_mlm")})->named_parameters();
  const auto bare = LoadHfModel({.path = GoldenFolder("bert_features")})->named_parameters();
  const std::string name = "encoder.layer.1.output.dense.weight";
  EXPECT_TRUE(from_mlm->named_parameters()["bert." + name].equal(mlm["bert." + name]));
  EXPECT_TRUE(from_bare->named_parameters()["bert." + name].equal(bare[name]));
  EXPECT_EQ(from_mlm->named_parameters()["classifier.weight"].size(0), 5);
  const std::string config = dynamic_cast<const HuggingFaceModel&>(*from_mlm).config_json;
  EXPECT_THAT(config, HasSubstr("\"BertForTokenClassification\""));
  EXPECT_THAT(config, HasSubstr("\"LABEL_4\": 4"));
}

// More tokens than the folder has, as transformers' resize_token_embeddings.
class WordTables : public testing::TestWithParam<const char*> {};

TEST_P(WordTables, GrowAsTransformersDo) {
  const auto read = ReadWeights(GoldenFolder(GetParam()) + "/resized.safetensors", "");
  ASSERT_TRUE(read.ok()) << read.status();
  std::map<std::string, at::Tensor> golden(read->tensors.begin(), read->tensors.end());
  const HfModelOptions options{.path = GoldenFolder(GetParam()), .min_vocab = 70};
  const auto model = LoadHfModel(options);
  const auto& description = dynamic_cast<const HuggingFaceModel&>(*model);
  EXPECT_EQ(description.vocabulary(), 70);
  EXPECT_EQ(description.added_tokens, 9);
  EXPECT_EQ(nlohmann::json::parse(description.config_json)["vocab_size"], 70);
  Batch batch;
  batch.inputs = golden["input_ids"];
  batch.targets = golden["labels"];
  batch.num_samples = batch.inputs.size(0);
  model->eval();
  const Outputs outputs = model->forward(batch);
  EXPECT_LE(RelativeDifference(outputs.tensor(), golden["logits"]), 1e-5);
  EXPECT_LE(RelativeDifference(model->loss(outputs, batch).total, golden["loss"]), 1e-5);
  const ConstructedModel deferred = ConstructModel([&] { return LoadHfModel(options); }, 5);
  ASSERT_NE(deferred.init, nullptr) << deferred.whole_because;
  size_t tables = 0;
  for (const auto& item : deferred.model->named_parameters()) {
    if (!golden.contains("after/" + item.key())) continue;
    ++tables;
    const at::Tensor values = deferred.init->Values(item.value());
    EXPECT_LE(RelativeDifference(values, golden["after/" + item.key()]), 1e-6) << item.key();
    EXPECT_LE(RelativeDifference(values, golden["drawn/" + item.key()]), 1e-4) << "drawn closely around the mean";
  }
  EXPECT_EQ(tables, std::string(GetParam()) == "llama" || std::string(GetParam()) == "bert_mlm" ? 2 : 1);
}

INSTANTIATE_TEST_SUITE_P(Hf, WordTables, testing::Values("bert_mlm", "gpt2", "llama", "llama_linear", "mpt"),
                         [](const auto& info) { return std::string(info.param); });

TEST(WordTables, StayWhereTheyAreLargeEnoughAndAreThere) {
  const auto model = LoadHfModel({.path = GoldenFolder("llama"), .min_vocab = 61});
  EXPECT_EQ(dynamic_cast<const HuggingFaceModel&>(*model).added_tokens, 0);
  EXPECT_EQ(dynamic_cast<const HuggingFaceModel&>(*model).vocabulary(), 61);
  EXPECT_THAT(Load({.path = GoldenFolder("vit"), .min_vocab = 61}).message(),
              HasSubstr("model.allow_embedding_resizing: config.json has no `vocab_size`"));
  EXPECT_THAT(Load({.path = GoldenFolder("llama"), .config = R"({"vocab_size": 70})"}).message(),
              HasSubstr("lm_head.weight (61x16, the model has 70x16)"))
      << "only what is asked for grows";
}

// timm's names and configuration, beside what Family (hf_families_test.cc) computes with the folder.
TEST(TimmVit, NamesWhatHasNoEquivalent) {
  const auto refusal = [](const std::function<void(nlohmann::json&)>& change) {
    TempDir folder;
    nlohmann::json config = ConfigOf("timm_vit");
    change(config);
    EXPECT_TRUE(AtomicWriteFile(folder.path() + "/config.json", config.dump()).ok());
    return std::string(Load({.path = folder.path(), .pretrained = false}).message());
  };
  EXPECT_EQ(refusal([](nlohmann::json&) {}), "");
  EXPECT_THAT(refusal([](nlohmann::json& config) { config["architecture"] = "vit_base_patch16_clip_224"; }),
              HasSubstr("`architecture` is `vit_base_patch16_clip_224`; of timm's, supported are vit_{tiny,"));
  EXPECT_THAT(refusal([](nlohmann::json& config) { config["global_pool"] = "avg"; }),
              HasSubstr("`global_pool` is \"avg\"; supported is only \"token\""));
  EXPECT_THAT(refusal([](nlohmann::json& config) { config["model_args"]["init_values"] = 1e-5; }),
              HasSubstr("unsupported: `model_args.init_values` (1e-05)"));
  const std::string config = FromTimmConfig(R"({"architecture": "vit_large_patch32_384.tag", "num_classes": 0})");
  const auto read = nlohmann::json::parse(config);
  EXPECT_EQ(read["hidden_size"], 1024);
  EXPECT_EQ(read["num_hidden_layers"], 24);
  EXPECT_EQ(read["intermediate_size"], 4096);
  EXPECT_EQ(read["image_size"], 384);
  EXPECT_FALSE(read.contains("architectures")) << "without a head";
  EXPECT_EQ(FromTimmConfig(R"({"model_type": "vit"})"), R"({"model_type": "vit"})");
}

TEST(TimmVit, UnexpectedTensorsKeepTheirNames) {
  const auto weights = FromTimmWeights({{"patch_embed.proj.weight", torch::ones({2})},
                                        {"blocks.3.ls1.gamma", torch::ones({2})},
                                        {"blocks.3.attn.qkv.bias", torch::arange(6)}});
  ASSERT_EQ(weights.size(), 5);
  EXPECT_EQ(weights[1].first, "blocks.3.ls1.gamma");
  EXPECT_EQ(weights[4].first, "vit.encoder.layer.3.attention.attention.value.bias");
  EXPECT_TRUE(std::get<at::Tensor>(weights[4].second).equal(torch::tensor({4, 5}, at::kLong)));
}

TEST(HfModel, LossesHaveWeightsAndSmoothing) {
  HfGolden golden("bert");
  HfTaskOptions task;
  task.loss.label_smoothing = 0.1;
  task.loss.class_weights = {1, 2, 0.5};
  const auto model = LoadHfModel({.path = GoldenFolder("bert"), .task = task});
  const at::Tensor logits = golden.tensors["logits"];
  const at::Tensor expected = at::cross_entropy_loss(logits, golden.batch.targets, torch::tensor({1.0F, 2.0F, 0.5F}),
                                                     at::Reduction::Mean, -100, 0.1);
  EXPECT_LE(RelativeDifference(model->loss(logits, golden.batch).total, expected), 1e-6);
  task.loss.class_weights = {1, 2};
  EXPECT_THAT(Load({.path = GoldenFolder("bert"), .task = task}).message(),
              HasSubstr("model.class_weights: 2 of them, but the model has 3 labels"));
}

TEST(HfModel, TellsInputsThatDoNotFit) {
  HfGolden golden("bert");
  const auto refusal = [&](const std::string& name, const at::Tensor& inputs) {
    Batch batch = golden.batch;
    batch.inputs = inputs;
    batch.extra.clear();
    return std::string(CatchTorch([&] { LoadHfModel({.path = GoldenFolder(name)})->forward(batch); }).message());
  };
  EXPECT_THAT(refusal("bert", torch::zeros({1, 13}, at::kLong)), HasSubstr("takes 12 tokens, but a sample has 13"));
  EXPECT_THAT(refusal("roberta", torch::zeros({1, 11}, at::kLong)), HasSubstr("takes 10 tokens, but a sample has 11"));
  EXPECT_THAT(refusal("llama", torch::zeros({1, 17}, at::kLong)), HasSubstr("takes 16 tokens, but a sample has 17"));
  EXPECT_THAT(refusal("gpt2", torch::full({1, 3}, 61, at::kLong)), HasSubstr("model.vocab_size: token 61"));
}

}  // namespace
}  // namespace composer
