// Exports models as ONNX files. Where COMPOSER_ONNXRUNTIME names a Python with onnxruntime (tools/onnx_setup.sh), that
// gives the same outputs for another number of samples.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/export/onnx_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>
#include <functional>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"
#include "trainer/models/text/bert.h"
#include "trainer/models/text/gpt2.h"
#include "trainer/models/text/llama.h"
#include "trainer/models/vision/resnet.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct Exported {
  const char* name;
  std::function<std::shared_ptr<Model>()> make;
  std::function<Batch(int64_t samples)> batch;
};

Batch Pictures(int64_t samples, int64_t channels, int64_t side) {
  Batch batch;
  batch.num_samples = samples;
  batch.inputs = torch::randn({samples, channels, side, side});
  return batch;
}

Batch Tokens(int64_t samples, int64_t length, int64_t vocab) {
  Batch batch;
  batch.num_samples = samples;
  batch.inputs = torch::randint(vocab, {samples, length}, at::kLong);
  return batch;
}

// Every second text ends one token earlier.
Batch MaskedTokens(int64_t samples) {
  Batch batch = Tokens(samples, 6, 30);
  batch.extra["attention_mask"] = torch::ones({samples, 6}, at::kLong);
  batch.extra["token_type_ids"] = torch::randint(2, {samples, 6}, at::kLong);
  batch.extra["attention_mask"].slice(0, 0, samples, 2).select(1, 5).zero_();
  return batch;
}

std::shared_ptr<Model> TinyBert() {
  BertOptions options;
  options.vocab_size = 30;
  options.hidden_size = 8;
  options.num_hidden_layers = 2;
  options.num_attention_heads = 2;
  options.intermediate_size = 16;
  options.max_position_embeddings = 8;
  return MakeBert(options);
}

std::shared_ptr<Model> TinyLlama() {
  LlamaOptions options;
  options.vocab_size = 30;
  options.hidden_size = 8;
  options.intermediate_size = 16;
  options.num_hidden_layers = 2;
  options.num_attention_heads = 2;
  options.num_key_value_heads = 1;
  options.head_dim = 4;
  options.context = 8;
  return MakeLlama(options);
}

// With means and variances that are not those of a new layer.
std::shared_ptr<Model> SmallResNet() {
  const auto model = MakeResNetSmall({});
  model->train();
  for (int i = 0; i < 2; ++i) model->forward(Pictures(4, 1, 8));
  return model;
}

const Exported kModels[] = {
    {"mlp", [] { return MakeMlp({12, 8, 3}); }, [](int64_t n) { return Pictures(n, 3, 2); }},
    {"resnet_small", SmallResNet, [](int64_t n) { return Pictures(n, 1, 8); }},
    {"resnet", [] { return MakeResNet({.depth = 18, .classes = 10, .width = 8}); },
     [](int64_t n) { return Pictures(n, 3, 16); }},
    {"gpt", [] { return MakeGpt({.layers = 2, .heads = 2, .width = 8, .context = 8, .vocab = 30}); },
     [](int64_t n) { return Tokens(n, 8, 30); }},
    {"gpt2", [] { return MakeGpt2({.vocab_size = 30, .n_positions = 8, .n_embd = 8, .n_layer = 2, .n_head = 2}); },
     [](int64_t n) { return Tokens(n, 7, 30); }},
    {"bert", TinyBert, MaskedTokens},
    {"llama", TinyLlama, [](int64_t n) { return Tokens(n, 8, 30); }},
};

constexpr char kScript[] = R"(
import json, sys, numpy, onnxruntime
folder = sys.argv[1]
spec = json.load(open(folder + "/spec.json"))
read = lambda entry: numpy.fromfile(f"{folder}/{entry['file']}", entry["dtype"]).reshape(entry["shape"])
session = onnxruntime.InferenceSession(folder + "/model.onnx", providers=["CPUExecutionProvider"])
names = {i.name for i in session.get_inputs()}
(outputs,) = session.run(["outputs"], {e["name"]: read(e) for e in spec["inputs"] if e["name"] in names})
wanted = read(spec["output"])
assert outputs.shape == wanted.shape, (outputs.shape, wanted.shape)
print("difference %.1e" % abs(outputs - wanted).max(), "of", "%.1e" % abs(wanted).max())
assert numpy.allclose(outputs, wanted, rtol=1e-5, atol=1e-5)
)";

class Folder {
 public:
  std::string Entry(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor data = tensor.contiguous();
    const std::string file = absl::StrCat(name, ".bin");
    const absl::string_view bytes(static_cast<const char*>(data.const_data_ptr()), data.nbytes());
    EXPECT_TRUE(AtomicWriteFile(folder_.Path(file), bytes).ok());
    std::string shape;
    for (const int64_t size : data.sizes()) absl::StrAppend(&shape, shape.empty() ? "" : ",", size);
    return absl::StrCat(R"({"name": ")", name, R"(", "file": ")", file, R"(", "dtype": ")",
                        data.scalar_type() == at::kLong ? "int64" : "float32", R"(", "shape": [)", shape, "]}");
  }
  void Write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(AtomicWriteFile(folder_.Path(name), text).ok());
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TempDir folder_;
};

class ExportedModel : public testing::TestWithParam<Exported> {};

TEST_P(ExportedModel, GivesTheSameOutputsInOnnxruntime) {
  const Exported& exported = GetParam();
  torch::manual_seed(3);
  const std::shared_ptr<Model> model = exported.make();
  const auto file = ExportOnnx(*model, exported.batch(3));
  ASSERT_TRUE(file.ok()) << file.status();
  const char* const python = std::getenv("COMPOSER_ONNXRUNTIME");
  if (python == nullptr) GTEST_SKIP() << "COMPOSER_ONNXRUNTIME names no Python (tools/onnx_setup.sh)";
  model->eval();
  const at::NoGradGuard no_grad;
  const Batch batch = exported.batch(5);
  Folder folder;
  folder.Write("model.onnx", *file);
  std::string inputs = folder.Entry("inputs", batch.inputs);
  for (const auto& [name, tensor] : batch.extra) absl::StrAppend(&inputs, ", ", folder.Entry(name, tensor));
  const std::string output = folder.Entry("outputs", model->eval_forward(batch).tensor());
  folder.Write("spec.json", absl::StrCat(R"({"inputs": [)", inputs, R"(], "output": )", output, "}"));
  folder.Write("check.py", kScript);
  const std::string said = folder.path() + "/said";
  const std::string command =
      absl::StrCat(python, " ", folder.path(), "/check.py ", folder.path(), " >", said, " 2>&1");
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::printf("%s", ReadFile(said)->c_str());
}

INSTANTIATE_TEST_SUITE_P(Models, ExportedModel, testing::ValuesIn(kModels),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(OnnxExport, ParametersKeepTheirNamesAndTheModelItsMode) {
  const auto model = MakeMlp({12, 8, 3});
  model->train();
  const auto file = ExportOnnx(*model, Pictures(3, 3, 2));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const char* name : {"layers.0.weight", "layers.0.bias", "layers.1.weight", "MatMul", "Relu", "batch"})
    EXPECT_THAT(*file, HasSubstr(name));
  EXPECT_TRUE(model->is_training());
  for (const at::Tensor& param : model->parameters()) EXPECT_TRUE(param.requires_grad());
}

// A model whose forward is a function.
class Calls final : public Model {
 public:
  explicit Calls(std::function<at::Tensor(const at::Tensor&)> call) : call_(std::move(call)) {}
  Outputs forward(const Batch& batch) override { return call_(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch&) override { return outputs.tensor().sum(); }
  MetricList metrics(bool) const override { return {}; }

 private:
  std::function<at::Tensor(const at::Tensor&)> call_;
};

TEST(OnnxExport, AnOperatorWithoutATranslationIsNamed) {
  Calls model([](const at::Tensor& x) { return at::lgamma(x); });
  const auto file = ExportOnnx(model, Pictures(3, 1, 2));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("aten::lgamma, which has no translation"));
}

TEST(OnnxExport, WhatDependsOnTheNumberOfSamplesIsRefused) {
  Calls constant([](const at::Tensor& x) { return x + at::arange(x.size(0), x.options()).view({-1, 1, 1, 1}); });
  EXPECT_EQ(ExportOnnx(constant, Pictures(3, 1, 2)).status().code(), absl::StatusCode::kFailedPrecondition);
  Calls branch([](const at::Tensor& x) { return x.size(0) == 2 ? x.exp() : x.neg().exp(); });
  EXPECT_EQ(ExportOnnx(branch, Pictures(3, 1, 2)).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace composer
