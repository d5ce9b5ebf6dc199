// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/export_for_inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/types.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/format/safetensors.h"
#include "tests/support/run_python.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/callbacks/callback_fixture.h"
#include "tests/trainer/callbacks/small_models.h"
#include "trainer/core/model_sharding.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Records the files that the run passes on.
class FileTaker final : public LoggerDestination {
 public:
  explicit FileTaker(std::vector<std::string>* names) : names_(names) {}
  std::string name() const override { return "FileTaker"; }
  absl::Status Write(const MetricRecord&) override { return absl::OkStatus(); }
  absl::Status TakeFile(absl::string_view name, const std::string& path) override {
    names_->push_back(PathExists(path) ? std::string(name) : "missing: " + path);
    return absl::OkStatus();
  }

 private:
  std::vector<std::string>* names_;
};

class ExportForInferenceTest : public CallbackTest {
 protected:
  ExportForInferenceTest() {
    state_.model = std::make_shared<LinearModel>();
    state_.identity.run_name = "a run";
    state_.identity.run_folder = dir_.path();
    Advance(absl::Seconds(1), 16, 320);
  }
  TempDir dir_;
};

TEST_F(ExportForInferenceTest, WeightsBuffersAndConfigAreReadBack) {
  std::vector<std::string> taken;
  logger_.AddDestination(std::make_unique<FileTaker>(&taken));
  ExportForInference callback({.model_json = R"({"name":"linear","sizes":[2,2]})"});
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  EXPECT_THAT(taken, ElementsAre("export/model.safetensors", "export/config.json"));

  const std::string file = ReadFile(dir_.Path("export/model.safetensors")).value();
  const auto bytes = static_cast<int64_t>(file.size());
  const int64_t header = SafetensorsHeaderBytes(absl::string_view(file).substr(0, 8), bytes).value();
  const auto entries = ParseSafetensors(absl::string_view(file).substr(0, static_cast<size_t>(header)), bytes);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].name, "fc.bias");
  EXPECT_EQ((*entries)[1].name, "fc.weight");
  EXPECT_THAT((*entries)[1].shape, ElementsAre(2, 2));
  EXPECT_EQ((*entries)[2].name, "seen");
  float weight[4];
  std::memcpy(weight, file.data() + (*entries)[1].begin, sizeof(weight));
  EXPECT_THAT(weight, ElementsAre(3, 4, 0, 0));

  const auto config = nlohmann::json::parse(ReadFile(dir_.Path("export/config.json")).value());
  EXPECT_EQ(config["model"]["sizes"], nlohmann::json({2, 2}));
  EXPECT_EQ(config["training"]["run_name"], "a run");
  EXPECT_EQ(config["training"]["batch"], 1);
  EXPECT_EQ(config["training"]["sample"], 16);
  EXPECT_EQ(config["training"]["token"], 320);
  EXPECT_EQ(config["composer_version"], COMPOSER_VERSION);
}

// A tokenizer of a file of its own.
class FiledTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "filed"; }
  int64_t vocab_size() const override { return 7; }
  const SpecialTokens& special_tokens() const override { return none_; }
  Encoding Encode(absl::string_view, bool) const override { return {}; }
  std::string Decode(absl::Span<const int64_t>, bool) const override { return ""; }
  std::vector<std::pair<std::string, std::string>> Files() const override { return {{"vocab.txt", "a\nb\n"}}; }

 private:
  SpecialTokens none_;
};

TEST_F(ExportForInferenceTest, TheTokenizersFilesLieBesideTheWeights) {
  std::vector<std::string> taken;
  logger_.AddDestination(std::make_unique<FileTaker>(&taken));
  state_.tokenizer = std::make_shared<FiledTokenizer>();
  ExportForInference callback({});
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  EXPECT_THAT(taken, ElementsAre("export/model.safetensors", "export/config.json", "export/vocab.txt"));
  EXPECT_EQ(ReadFile(dir_.Path("export/vocab.txt")).value(), "a\nb\n");
  const auto config = nlohmann::json::parse(ReadFile(dir_.Path("export/config.json")).value());
  EXPECT_EQ(config["tokenizer"], nlohmann::json({{"name", "filed"}, {"vocab_size", 7}}));
}

// Another reader, written only from the format's description.
TEST_F(ExportForInferenceTest, PythonReadsIt) {
  ExportForInference callback({.folder = dir_.Path("elsewhere")});
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  constexpr char kScript[] = R"(
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
for name, entry in json.loads(data[8:8 + size]).items():
    if name != "__metadata__":
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        print(name, entry["dtype"], entry["shape"], *struct.unpack("<%df" % ((end - begin) // 4), data[begin:end]))
)";
  EXPECT_EQ(RunPythonScript(kScript, {dir_.Path("elsewhere/model.safetensors")}),
            "fc.bias F32 [2] 0.0 2.0\nfc.weight F32 [2, 2] 3.0 4.0 0.0 0.0\nseen F32 [1] 5.0\n");
}

TEST_F(ExportForInferenceTest, AProgramIsTracedWithTheFirstBatch) {
  std::vector<std::string> taken;
  logger_.AddDestination(std::make_unique<FileTaker>(&taken));
  state_.batch.num_samples = 2;
  state_.batch.inputs = torch::tensor({{1.F, 0.F}, {0.F, 1.F}});
  for (const ExportFormat format : {ExportFormat::kTorchScript, ExportFormat::kOnnx}) {
    ExportForInference callback({.format = format});
    ASSERT_TRUE(Fire(callback, Event::kFitStart).ok());
    ASSERT_TRUE(Fire(callback, Event::kAfterDataloader).ok());
    const absl::Status status = Fire(callback, Event::kFitEnd);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_THAT(taken, ElementsAre("export/model.ts", "export/config.json", "export/model.onnx", "export/config.json"));
  torch::jit::Module module = torch::jit::load(dir_.Path("export/model.ts"));
  const at::Tensor inputs = torch::randn({5, 2});
  Batch batch;
  batch.num_samples = 5;
  batch.inputs = inputs;
  EXPECT_TRUE(module.forward({inputs}).toTensor().equal(state_.model->eval_forward(batch).tensor()));
}

TEST_F(ExportForInferenceTest, WithoutABatchNoProgramIsWritten) {
  ExportForInference callback({.format = ExportFormat::kTorchScript});
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  EXPECT_FALSE(PathExists(dir_.Path("export")));
}

// A model of which no rank has the whole.
class Shards final : public ModelSharding {
 public:
  void BeginForward() override {}
  void EndForward() override {}
  void AbandonForward() override {}
  void SkipForward() override {}
  void BeginWhole() override {}
  bool keeps_whole() const override { return false; }
  const Piece* Find(const at::Tensor&) const override { return nullptr; }
  void SumOverShards(const at::Tensor&) override {}
  int num_shards() const override { return 2; }
  int shard_index() const override { return 0; }
  at::Device device() const override { return at::kCPU; }
  std::vector<std::pair<std::string, at::Tensor>> WholeParameters() override { return {}; }
};

TEST_F(ExportForInferenceTest, AProgramOfAShardedModelIsRefusedAtTheStart) {
  Shards shards;
  state_.sharding = &shards;
  ExportForInference weights({}), program({.format = ExportFormat::kTorchScript});
  EXPECT_TRUE(Fire(weights, Event::kFitStart).ok());
  const absl::Status status = Fire(program, Event::kFitStart);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("`composer checkpoint export RUN model.ts`"));
  state_.sharding = nullptr;
}

TEST_F(ExportForInferenceTest, ASecondExportReplacesTheFirst) {
  ExportForInference callback({});
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  const std::string before = ReadFile(dir_.Path("export/model.safetensors")).value();
  {
    const torch::NoGradGuard no_grad;
    state_.model->parameters()[0].fill_(1);
  }
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  const std::string after = ReadFile(dir_.Path("export/model.safetensors")).value();
  EXPECT_EQ(before.size(), after.size());
  EXPECT_NE(before, after);
}

TEST_F(ExportForInferenceTest, RankZeroWritesAndAFolderIsNeeded) {
  ExportForInference callback({});
  state_.identity.rank = 1;
  ASSERT_TRUE(Fire(callback, Event::kFitEnd).ok());
  EXPECT_FALSE(PathExists(dir_.Path("export")));
  state_.identity.rank = 0;
  state_.identity.run_folder = "";
  const absl::Status status = Fire(callback, Event::kFitEnd);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs a folder (save_path) or a run_folder"));
}

TEST_F(ExportForInferenceTest, AFolderThatCannotBeMadeIsNamed) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("export"), "a file").ok());
  ExportForInference callback({});
  const absl::Status status = Fire(callback, Event::kFitEnd);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir_.Path("export")));
}

}  // namespace
}  // namespace composer
