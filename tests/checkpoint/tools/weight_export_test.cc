// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/weight_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

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
