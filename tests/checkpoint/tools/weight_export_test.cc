// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/weight_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "checkpoint/tools/lora_export.h"
#include "checkpoint/tools/weight_files.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StateDict Model() {
  StateDict state;
  state.tensors = {{"model/fc.weight", torch::arange(12, at::kFloat).view({3, 4}) / 3},
                   {"model/fc.bias", torch::arange(3, at::kFloat)},
                   {"model/steps", torch::tensor(int64_t{7})},
                   {"model/mask", torch::tensor({true, false})},
                   {"optimizer/exp_avg", torch::ones(5)}};
  return state;
}

class Export : public testing::Test {
 protected:
  Export() : into_(dir_.path()) {
    EXPECT_TRUE(Saver(from_, RankExchange(), {.run_name = "r"}).Save(Model(), {0, 1}, 1).ok());
  }
  std::map<std::string, at::Tensor> Read(const std::string& path) {
    std::map<std::string, at::Tensor> tensors;
    const auto weights = ReadWeights(path, "");
    EXPECT_TRUE(weights.ok()) << weights.status();
    if (weights.ok()) tensors.insert(weights->tensors.begin(), weights->tensors.end());
    return tensors;
  }

  MemoryStore from_;
  TempDir dir_;
  LocalStore into_;
};

TEST_F(Export, OneFileOfTheModelOnly) {
  const auto written = ExportWeights(from_, "ep0-ba1", into_, {});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(*written, ElementsAre("model.safetensors"));
  const auto tensors = Read(dir_.path());
  EXPECT_EQ(tensors.size(), 4u);
  for (const auto& [name, tensor] : Model().tensors) {
    if (!tensors.contains(name.substr(6))) continue;
    EXPECT_TRUE(torch::equal(tensors.at(name.substr(6)), tensor)) << name;
  }
  EXPECT_EQ(ExportWeights(from_, "ep0-ba1", into_, {}).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(ExportWeights(from_, "ep0-ba1", into_, {.overwrite = true}).ok());
}

TEST_F(Export, MergesLowRankLayers) {
  StateDict state = Model();
  const at::Tensor a = torch::arange(8, at::kFloat).view({2, 4}), b = torch::arange(6, at::kFloat).view({3, 2});
  state.tensors.push_back({"model/fc.lora_A.weight", a});
  state.tensors.push_back({"model/fc.lora_B.weight", b});
  MemoryStore from;
  ASSERT_TRUE(Saver(from, RankExchange(), {.run_name = "r"}).Save(state, {0, 1}, 1).ok());
  const ExportOptions options = {.max_shard_bytes = 60, .dtype = at::kHalf, .merged = {{"fc", 0.5, false}}};
  ASSERT_TRUE(ExportWeights(from, "ep0-ba1", into_, options).ok());
  const auto tensors = Read(dir_.path());
  EXPECT_EQ(tensors.size(), 4u) << "without the two";
  const at::Tensor expected = torch::arange(12, at::kFloat).view({3, 4}) / 3 + 0.5 * torch::mm(b, a);
  EXPECT_TRUE(torch::equal(tensors.at("fc.weight"), expected.to(at::kHalf)));
  EXPECT_THAT(ExportWeights(from, "ep0-ba1", into_, {.merged = {{"fc", 1, true}}}).status().message(),
              HasSubstr("the shapes of `fc` do not fit"));
  EXPECT_THAT(ExportWeights(from, "ep0-ba1", into_, {.merged = {{"head", 1, false}}}).status().message(),
              HasSubstr("`model/head.weight` is missing"));
  const auto only = ExportWeights(from, "ep0-ba1", into_, {.file_name = "a.safetensors", .only = {"fc.lora_"}});
  ASSERT_TRUE(only.ok()) << only.status();
  EXPECT_EQ(Read(dir_.Path("a.safetensors")).size(), 2u);
}

TEST(LoraState, IsReadStrictly) {
  const auto read = [](const std::string& config) {
    Manifest manifest;
    manifest.small["required_algorithms"] = R"([{"name": "LoRA"}])";
    manifest.small["hugging_face"] = R"({"config": "{}", "folder": "/base"})";
    if (!config.empty()) manifest.small["algorithms/LoRA"] = config;
    return ReadLoraState(manifest);
  };
  const std::string good = R"({"r": 4, "lora_alpha": 8, "use_rslora": true, "fan_in_fan_out": true,)"
                           R"( "target_modules": ["a.b"], "modules_to_save": ["head"]})";
  const auto state = read(good);
  ASSERT_TRUE(state.ok() && state->has_value()) << state.status();
  EXPECT_EQ((*state)->layers[0].scale, 4);
  EXPECT_TRUE((*state)->layers[0].transposed);
  EXPECT_THAT((*state)->config_json, HasSubstr("\"base_model_name_or_path\": \"/base\""));
  EXPECT_EQ(read("").status().code(), absl::StatusCode::kFailedPrecondition);
  for (const char* bad : {"[]", "{}", "{", R"({"r": 0})"}) {
    EXPECT_EQ(read(bad).status().code(), absl::StatusCode::kDataLoss) << bad;
  }
  EXPECT_FALSE(ReadLoraState(Manifest())->has_value());
}

TEST_F(Export, LargeOnesAreSplitWithAnIndexWrittenLast) {
  const auto written = ExportWeights(from_, "ep0-ba1", into_, {.max_shard_bytes = 60});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(*written, ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                    "model.safetensors.index.json"));
  const nlohmann::json index = nlohmann::json::parse(*GetObject(into_, "model.safetensors.index.json", 1 << 20));
  EXPECT_EQ(index["metadata"]["total_size"], 48 + 12 + 8 + 2);
  EXPECT_EQ(index["weight_map"]["fc.bias"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["mask"], "model-00002-of-00002.safetensors");
  EXPECT_EQ(Read(dir_.path()).size(), 4u);
}

TEST_F(Export, FloatsAreConvertedAndNamesReplaced) {
  const auto written = ExportWeights(
      from_, "ep0-ba1", into_, {.file_name = "x.safetensors", .dtype = at::kBFloat16, .renames = {{"fc.", "head."}}});
  ASSERT_TRUE(written.ok()) << written.status();
  const auto tensors = Read(dir_.Path("x.safetensors"));
  EXPECT_TRUE(torch::equal(tensors.at("head.weight"), Model().tensors[0].second.to(at::kBFloat16)));
  EXPECT_EQ(tensors.at("steps").scalar_type(), at::kLong);
  EXPECT_EQ(tensors.at("mask").scalar_type(), at::kBool);
}

TEST_F(Export, DamageIsFoundAndNothingIsWritten) {
  const std::vector<std::string> keys = *from_.List("ep0-ba1");
  std::string content = *GetObject(from_, keys[0], 1 << 20);
  content[content.size() - 40] = static_cast<char>(content[content.size() - 40] ^ 1);
  ASSERT_TRUE(from_.Put(keys[0], {content}).ok());
  EXPECT_EQ(ExportWeights(from_, "ep0-ba1", into_, {}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(*into_.List(""), ElementsAre());
}

TEST_F(Export, ACheckpointWithoutAModelIsRefused) {
  StateDict state;
  state.tensors = {{"w", torch::ones(1)}};
  ASSERT_TRUE(Saver(from_, RankExchange(), {.run_name = "r"}).Save(state, {0, 2}, 1).ok());
  EXPECT_THAT(std::string(ExportWeights(from_, "ep0-ba2", into_, {}).status().message()),
              HasSubstr("no tensors of a model"));
}

}  // namespace
}  // namespace composer
