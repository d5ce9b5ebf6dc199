// Exports models as ONNX files. Where COMPOSER_ONNXRUNTIME names a Python with onnxruntime (tools/onnx_setup.sh), that
// gives the same outputs for another number of samples.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/export/onnx_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainer/export/exported_models.h"

namespace composer {
namespace {

using testing::HasSubstr;

constexpr char kScript[] = R"(
import json, sys, numpy, onnxruntime
folder = sys.argv[1]
spec = json.load(open(folder + "/spec.json"))
read = lambda entry: numpy.fromfile(f"{folder}/{entry['file']}", entry["dtype"]).reshape(entry["shape"])
def run(options=None):
    session = onnxruntime.InferenceSession(folder + "/model.onnx", options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    return session.run(["outputs"], {e["name"]: read(e) for e in spec["inputs"] if e["name"] in names})[0]
outputs, wanted = run(), read(spec["output"])
if b"DequantizeLinear" in open(folder + "/model.onnx", "rb").read():
    # By default onnxruntime rounds what it multiplies with int8 weights to int8, too.
    difference = numpy.linalg.norm(outputs - wanted) / numpy.linalg.norm(wanted)
    print("by onnxruntime's own rounding: %.1e of the norm" % difference)
    assert difference < 0.02
    exact = onnxruntime.SessionOptions()
    exact.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "0")
    outputs = run(exact)
assert outputs.shape == wanted.shape, (outputs.shape, wanted.shape)
print("difference %.1e" % abs(outputs - wanted).max(), "of", "%.1e" % abs(wanted).max())
assert numpy.allclose(outputs, wanted, rtol=1e-5, atol=1e-5)
)";

class ExportedModel : public testing::TestWithParam<Exported> {};

TEST_P(ExportedModel, GivesTheSameOutputsInOnnxruntime) {
  const Exported& exported = GetParam();
  torch::manual_seed(3);
  const std::shared_ptr<Model> model = exported.make();
  const auto file = ExportOnnx(*model, exported.batch(3));
  ASSERT_TRUE(file.ok()) << file.status();
  const char* const python = std::getenv("COMPOSER_ONNXRUNTIME");
  if (python == nullptr) GTEST_SKIP() << "COMPOSER_ONNXRUNTIME names no Python (tools/onnx_setup.sh)";
  Folder folder;
  folder.Write("model.onnx", *file);
  folder.WriteSpec(*model, exported.batch(5));
  EXPECT_EQ(folder.RunPython(python, kScript), 0);
}

// The numbers that int8 weights stand for.
void RoundWeights(Model& model) {
  const at::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) {
    at::Tensor weight = item.value();
    if (weight.dim() < 2 || weight.numel() < 1024) continue;
    // GPT-2's products have their outputs in the last dimension.
    const bool turned = item.key().find("c_attn") != std::string::npos ||
                        item.key().find("c_fc") != std::string::npos || item.key().find("c_proj") != std::string::npos;
    std::vector<int64_t> others;
    for (int64_t i = 0; i < weight.dim(); ++i) {
      if (i != (turned ? weight.dim() - 1 : 0)) others.push_back(i);
    }
    const at::Tensor scale = weight.abs().amax(others, true) / 127;
    weight.copy_((weight / scale).round() * scale);
  }
}

// Large enough that most of its bytes are weights.
std::shared_ptr<Model> WideModel(const std::string& name) {
  if (name == "gpt2") return MakeGpt2({.vocab_size = 300, .n_positions = 8, .n_embd = 64, .n_layer = 2, .n_head = 2});
  if (name == "gpt") return MakeGpt({.layers = 2, .heads = 2, .width = 64, .context = 8, .vocab = 300});
  return MakeResNet({.depth = 18, .classes = 10, .width = 16});
}

class Int8Model : public testing::TestWithParam<const char*> {};

TEST_P(Int8Model, IsAQuarterOfTheBytesAndComputesWithRoundedWeights) {
  torch::manual_seed(3);
  const std::shared_ptr<Model> model = WideModel(GetParam());
  const auto batch = [&](int64_t n) {
    return GetParam() == std::string("resnet") ? Pictures(n, 3, 16) : Tokens(n, 8, 300);
  };
  const auto whole = ExportOnnx(*model, batch(3)), file = ExportOnnx(*model, batch(3), OnnxWeights::kInt8);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(file.ok()) << file.status();
  std::printf("%zu of %zu bytes\n", file->size(), whole->size());
  EXPECT_LT(static_cast<double>(file->size()), 0.33 * static_cast<double>(whole->size()));
  EXPECT_THAT(*file, HasSubstr("DequantizeLinear"));
  const char* const python = std::getenv("COMPOSER_ONNXRUNTIME");
  if (python == nullptr) GTEST_SKIP() << "COMPOSER_ONNXRUNTIME names no Python (tools/onnx_setup.sh)";
  const Batch five = batch(5);
  Folder folder;
  folder.Write("model.onnx", *file);
  model->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor exact = model->eval_forward(five).tensor();
  RoundWeights(*model);
  const at::Tensor rounded = model->eval_forward(five).tensor();
  std::printf("by rounding: %.1e of %.1e\n", (rounded - exact).abs().max().item<double>(),
              exact.abs().max().item<double>());
  EXPECT_LT((rounded - exact).norm().item<double>(), 0.02 * exact.norm().item<double>());
  folder.WriteSpec(*model, five);
  EXPECT_EQ(folder.RunPython(python, kScript), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Int8Model, testing::Values("gpt", "gpt2", "resnet"),
                         [](const auto& param) { return std::string(param.param); });

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
