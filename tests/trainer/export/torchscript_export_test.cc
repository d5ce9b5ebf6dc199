// Exports models as TorchScript files, which LibTorch reads back and runs with other numbers of samples. Where
// COMPOSER_TORCH names a Python with torch (tools/peers_setup.sh), torch.jit.load does, too.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/export/torchscript_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>

#include <sstream>

#include "tests/trainer/export/exported_models.h"

namespace composer {
namespace {

using testing::HasSubstr;

torch::jit::Module Loaded(const std::string& file) {
  std::istringstream in(file);
  return torch::jit::load(in);
}

constexpr char kTorchScript[] = R"(
import json, sys, torch
folder = sys.argv[1]
spec = json.load(open(folder + "/spec.json"))
def read(entry):
    data = bytearray(open(f"{folder}/{entry['file']}", "rb").read())
    return torch.frombuffer(data, dtype=getattr(torch, entry["dtype"])).reshape(entry["shape"])
model = torch.jit.load(folder + "/model.ts")
assert not model.training
inputs = {entry["name"]: read(entry) for entry in spec["inputs"]}
wanted = read(spec["output"])
for run in range(3):  # the later ones are of torch's optimizing executor
    outputs = model(**inputs)
    assert outputs.shape == wanted.shape, (outputs.shape, wanted.shape)
    torch.testing.assert_close(outputs, wanted, rtol=1e-5, atol=1e-5)
print("difference %.1e" % (outputs - wanted).abs().max(), "of", "%.1e" % wanted.abs().max(), "with",
      len(model.state_dict()), "tensors, torch", torch.__version__)
)";

class ScriptedModel : public testing::TestWithParam<Exported> {};

TEST_P(ScriptedModel, GivesTheSameOutputsForAnyNumberOfSamples) {
  const Exported& exported = GetParam();
  torch::manual_seed(3);
  const std::shared_ptr<Model> model = exported.make();
  model->train();
  const auto file = ExportTorchScript(*model, exported.batch(3));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(model->is_training());
  torch::jit::Module module = Loaded(*file);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors[item.name] = item.value;
  for (const auto& item : model->named_parameters()) {
    ASSERT_EQ(tensors.count(item.key()), 1u) << item.key();
    EXPECT_TRUE(tensors[item.key()].equal(item.value())) << item.key();
  }
  model->eval();
  const at::NoGradGuard no_grad;
  for (const int64_t samples : {1, 4, 7}) {
    const Batch batch = exported.batch(samples);
    std::unordered_map<std::string, c10::IValue> named = {{"inputs", batch.inputs}};
    for (const auto& [name, tensor] : batch.extra) named.emplace(name, tensor);
    const at::Tensor found = module.get_method("forward")({}, named).toTensor();
    const at::Tensor wanted = model->eval_forward(batch).tensor();
    EXPECT_TRUE(at::allclose(found, wanted, 1e-5, 1e-5)) << samples;
  }
  const char* const python = std::getenv("COMPOSER_TORCH");
  if (python == nullptr) GTEST_SKIP() << "COMPOSER_TORCH names no Python (tools/peers_setup.sh)";
  Folder folder;
  folder.Write("model.ts", *file);
  folder.WriteSpec(*model, exported.batch(5));
  EXPECT_EQ(folder.RunPython(python, kTorchScript), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ScriptedModel, testing::ValuesIn(kModels),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(TorchScriptExport, SizesThatFollowFromTheSamplesAreComputed) {
  Calls places([](const at::Tensor& x) { return x + at::arange(x.size(0) + 1).slice(0, 1).view({-1, 1, 1, 1}); });
  const auto file = ExportTorchScript(places, Pictures(3, 1, 2));
  ASSERT_TRUE(file.ok()) << file.status();
  const at::Tensor x = Pictures(6, 1, 2).inputs;
  const at::Tensor found = Loaded(*file).forward({x}).toTensor();
  EXPECT_TRUE(found.equal(x + at::arange(1, 7).view({-1, 1, 1, 1})));
}

TEST(TorchScriptExport, WhatDependsOnTheNumberOfSamplesIsRefused) {
  Calls branch([](const at::Tensor& x) { return x.size(0) == 2 ? x.exp() : x.neg().exp(); });
  Calls square([](const at::Tensor& x) { return x * at::arange(x.size(0) * x.size(0)).sum(); });
  Calls factor([](const at::Tensor& x) { return x * (1.0 / static_cast<double>(x.size(0))); });
  for (Calls* model : {&branch, &square, &factor}) {
    const auto file = ExportTorchScript(*model, Pictures(3, 1, 2));
    EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition) << file.status();
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("depends on the number of samples"));
  }
}

// A model with two outputs.
class Pair final : public Model {
 public:
  Outputs forward(const Batch& batch) override {
    return Outputs(Outputs::Named{{"logits", batch.inputs * 2}, {"hidden", batch.inputs + 1}});
  }
  Loss loss(const Outputs& outputs, const Batch&) override { return outputs.tensor().sum(); }
  MetricList metrics(bool) const override { return {}; }
};

TEST(TorchScriptExport, SeveralOutputsAreADictionary) {
  Pair model;
  const auto file = ExportTorchScript(model, Pictures(3, 1, 2));
  ASSERT_TRUE(file.ok()) << file.status();
  const at::Tensor x = Pictures(4, 1, 2).inputs;
  const auto found = Loaded(*file).forward({x}).toGenericDict();
  EXPECT_TRUE(found.at("logits").toTensor().equal(x * 2));
  EXPECT_TRUE(found.at("hidden").toTensor().equal(x + 1));
}

}  // namespace
}  // namespace composer
