// Tests modules and losses from Python, made by tools/make_torchscript_goldens.py.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/torchscript.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/autocast.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "tests/golden/torchscript/";

nlohmann::json Golden(const char* name) {
  return nlohmann::json::parse(std::ifstream(std::string(kFolder) + "training.json"))[name];
}

std::shared_ptr<Model> Open(const std::string& file, TorchScriptOptions options = {}) {
  options.path = kFolder + file;
  return LoadTorchScript(options);
}
std::string Refusal(const std::string& path, TorchScriptOptions options = {},
                    absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  options.path = path;
  const absl::Status status = CatchTorch([&] { LoadTorchScript(options); });
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  return std::string(status.message());
}

Batch Points(int64_t step) {
  const at::Tensor i = torch::arange(24, torch::kFloat).reshape({4, 6});
  Batch batch;
  batch.inputs = (i * 37 + step * 11).remainder(29) / 16 - 0.875;
  batch.targets = (torch::arange(4) + step).remainder(3);
  batch.num_samples = 4;
  return batch;
}
Batch Tokens(int64_t step) {
  const at::Tensor i = torch::arange(12).reshape({3, 4}) * 7 + step * 3;
  Batch batch;
  batch.inputs = i.remainder(5);
  batch.targets = (i + 1).remainder(5);
  batch.num_samples = 3;
  return batch;
}

// Runs five steps like the generator's train().
std::vector<double> Train(Model& model, Batch (*batch_of)(int64_t)) {
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
  model.train();
  std::vector<double> losses;
  for (int64_t step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const Batch batch = batch_of(step);
    const Loss loss = model.loss(model.forward(batch), batch);
    loss.total.backward();
    optimizer.step();
    losses.push_back(loss.total.item<double>());
  }
  return losses;
}

template <typename Items>
void ExpectSums(const nlohmann::json& golden, const Items& items) {
  ASSERT_EQ(items.size(), golden.size());
  for (const auto& item : items) {
    ASSERT_TRUE(golden.contains(item.key())) << item.key();
    EXPECT_NEAR(item.value().sum(torch::kDouble).template item<double>(), golden[item.key()].template get<double>(),
                1e-5)
        << item.key();
  }
}

void ExpectTrainsAsPython(const char* name, Model& model, Batch (*batch_of)(int64_t)) {
  const nlohmann::json golden = Golden(name);
  const std::vector<double> losses = Train(model, batch_of);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], golden["losses"][i].get<double>(), 1e-6) << i;
  ExpectSums(golden["parameters"], model.named_parameters());
  ExpectSums(golden["buffers"], model.named_buffers());
  model.eval();
  const at::NoGradGuard no_grad;
  EXPECT_NEAR(model.eval_forward(batch_of(0))->sum(torch::kDouble).item<double>(), golden["eval_outputs"].get<double>(),
              1e-5);
}

std::vector<std::string> Names(const MetricList& metrics) {
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric->name());
  return names;
}

TEST(TorchScript, ClassifierTrainsAsInPython) {
  const auto model = Open("classifier.pt", {.task = TorchScriptTask::kClassifier, .num_classes = 3});
  EXPECT_FALSE(model->named_parameters()["scale"].requires_grad());
  ExpectTrainsAsPython("classifier", *model, Points);
  EXPECT_THAT(Names(model->metrics(true)), ElementsAre("MulticlassAccuracy"));
  EXPECT_THAT(Names(model->metrics(false)), ElementsAre("MulticlassAccuracy", "CrossEntropy"));
}

TEST(TorchScript, TracedLanguageModelWithTiedWeightsTrainsAsInPython) {
  const auto model = Open("language.pt", {.task = TorchScriptTask::kLanguageModel});
  ExpectTrainsAsPython("language", *model, Tokens);
  EXPECT_THAT(Names(model->metrics(false)), ElementsAre("LanguageCrossEntropy", "LanguagePerplexity"));
}

TEST(TorchScript, OwnLossEvalForwardAndAssignedBufferAsInPython) {
  const auto model = Open("custom.pt");
  const Loss loss = model->loss(model->forward(Points(0)), Points(0));
  ASSERT_EQ(loss.parts.size(), 2u);
  EXPECT_EQ(loss.parts[0].first, "reconstruction");
  EXPECT_EQ(model->metrics(true).size(), 0u);
  ExpectTrainsAsPython("custom", *Open("custom.pt"), Points);
}

TEST(TorchScript, WeightsCanBeOverwrittenInPlace) {
  // A checkpoint does this, even after the script has assigned its buffer.
  const auto trained = Open("custom.pt"), fresh = Open("custom.pt");
  Train(*trained, Points);
  Train(*fresh, [](int64_t step) { return Points(step + 9); });
  const at::NoGradGuard no_grad;
  for (const auto& item : trained->named_parameters()) fresh->named_parameters()[item.key()].copy_(item.value());
  for (const auto& item : trained->named_buffers()) fresh->named_buffers()[item.key()].copy_(item.value());
  trained->eval();
  fresh->eval();
  EXPECT_TRUE(torch::equal(trained->eval_forward(Points(3)), fresh->eval_forward(Points(3))));
}

TEST(TorchScript, MovesWithItsBuffers) {
  const auto model = Open("classifier.pt", {.task = TorchScriptTask::kClassifier});
  model->to(torch::kDouble);
  Batch batch = Points(0);
  batch.inputs = batch.inputs.to(torch::kDouble);
  EXPECT_EQ(model->forward(batch)->scalar_type(), torch::kDouble);
  EXPECT_NE(model->named_buffers()["body.1.running_mean"].abs().sum().item<double>(), 0);
  EXPECT_EQ(model->named_buffers()["body.1.num_batches_tracked"].item<double>(), 1);
}

TEST(TorchScript, OptionalArgumentsComeFromTheBatchsExtras) {
  const auto model = Open("custom.pt");
  model->eval();
  Batch batch = Points(0);
  const at::Tensor without = model->forward(batch);
  batch.extra["weights"] = torch::zeros({4});
  const at::Tensor with = model->forward(batch);
  EXPECT_FALSE(torch::equal(without, with));
  EXPECT_TRUE(torch::equal(with[0], with[1])) << "all codes are zero";
}

TEST(TorchScript, DictionariesInAndOut) {
  const auto model = Open("returns.pt", {.task = TorchScriptTask::kClassifier});
  const at::Tensor outputs = model->forward(Points(1));
  EXPECT_THAT(outputs.sizes().vec(), ElementsAre(4, 3));
  EXPECT_GT(model->loss(outputs, Points(1)).total.item<double>(), 0);
}

TEST(TorchScript, LossesOfTorchNnFunctional) {
  const auto loss = [](TorchScriptLoss which, const at::Tensor& targets) {
    const auto model = Open("returns.pt", {.loss = which});
    Batch batch = Points(0);
    batch.targets = targets;
    const at::Tensor outputs = model->forward(batch);
    return std::pair(outputs, model->loss(outputs, batch).total.item<double>());
  };
  const at::Tensor dense = torch::rand({4, 3}).round(), classes = torch::arange(4).remainder(3);
  const auto [a, mse] = loss(TorchScriptLoss::kMse, dense);
  EXPECT_NEAR(mse, (a - dense).pow(2).mean().item<double>(), 1e-6);
  const auto [b, l1] = loss(TorchScriptLoss::kL1, dense);
  EXPECT_NEAR(l1, (b - dense).abs().mean().item<double>(), 1e-6);
  const auto [c, bce] = loss(TorchScriptLoss::kBinaryCrossEntropyWithLogits, dense);
  EXPECT_NEAR(bce, torch::binary_cross_entropy(c.sigmoid(), dense).item<double>(), 1e-6);
  const auto [d, nll] = loss(TorchScriptLoss::kNll, classes);
  EXPECT_NEAR(nll, -d.gather(1, classes.unsqueeze(1)).mean().item<double>(), 1e-6);
}

TEST(TorchScript, AutocastReachesIt) {
  const auto model = Open("returns.pt", {.task = TorchScriptTask::kClassifier});
  const AutocastScope autocast(Precision::kAmpBf16, at::kCPU);
  EXPECT_EQ(model->forward(Points(0))->scalar_type(), torch::kBFloat16);
}

TEST(TorchScript, EveryStepRunsTheSameCode) {
  // The profiling executor would differentiate whole subgraphs from the third run on.
  const auto model = Open("custom.pt");
  const std::string first = model->forward(Points(0))->grad_fn()->name();
  for (int i = 0; i < 4; ++i) {
    const at::Tensor outputs = model->forward(Points(0));
    EXPECT_EQ(outputs.grad_fn()->name(), first);
    outputs.sum().backward();
  }
}

TEST(TorchScript, FilesThatAreNotTorchScript) {
  const TempDir dir;
  EXPECT_THAT(Refusal(dir.Path("none.pt"), {}, absl::StatusCode::kNotFound), HasSubstr("no such file"));
  EXPECT_THAT(Refusal(dir.path()), HasSubstr("a folder"));
  ASSERT_TRUE(AtomicWriteFile(dir.Path("text.pt"), "hello").ok());
  EXPECT_THAT(Refusal(dir.Path("text.pt")), HasSubstr("not a TorchScript file"));
  const std::string good = ReadFile(std::string(kFolder) + "classifier.pt").value();
  ASSERT_TRUE(AtomicWriteFile(dir.Path("cut.pt"), good.substr(0, good.size() / 2)).ok());
  EXPECT_THAT(Refusal(dir.Path("cut.pt")), HasSubstr("not a TorchScript file"));
  EXPECT_THAT(Refusal(std::string(kFolder) + "state_dict.pt"), HasSubstr("torch.save file"));
  EXPECT_THAT(Refusal(std::string(kFolder) + "exported.pt2"), HasSubstr("torch.export program"));
}

TEST(TorchScript, ModulesThatCannotBeTrained) {
  const std::string folder = kFolder;
  EXPECT_THAT(Refusal(folder + "frozen.pt", {.task = TorchScriptTask::kClassifier}), HasSubstr("torch.jit.freeze"));
  EXPECT_THAT(Refusal(folder + "wrong_argument.pt", {.task = TorchScriptTask::kClassifier}),
              AllOf(HasSubstr("`count`"), HasSubstr("type int"), HasSubstr("Dict[str, Tensor]")));
  EXPECT_THAT(Refusal(folder + "returns.pt"), HasSubstr("a custom task needs `loss`"));
  EXPECT_THAT(Refusal(folder + "returns.pt", {.loss = TorchScriptLoss::kModule}), HasSubstr("exports no method loss"));
}

TEST(TorchScript, BatchesThatDoNotFit) {
  const auto model = Open("classifier.pt", {.task = TorchScriptTask::kClassifier, .num_classes = 4});
  const absl::Status classes = CatchTorch([&] { model->forward(Points(0)); });
  EXPECT_EQ(classes.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(classes.message()), HasSubstr("num_classes is 4, but the outputs have shape [4, 3]"));
  Batch narrow = Points(0);
  narrow.inputs = narrow.inputs.slice(1, 0, 2);
  EXPECT_FALSE(CatchTorch([&] { model->forward(narrow); }).ok());
}

}  // namespace
}  // namespace composer
