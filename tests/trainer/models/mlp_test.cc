// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/mlp.h"

#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include "trainer/data/data_loader.h"
#include "trainer/data/synthetic.h"
#include "trainer/models/classifier.h"

namespace composer {
namespace {

TEST(Mlp, NamesShapesAndFlops) {
  const std::shared_ptr<Model> model = MakeMlp({6, 5, 3});
  EXPECT_EQ(model->named_parameters().keys(),
            (std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"}));
  EXPECT_EQ(model->flops_per_sample(), 6 * (6 * 5 + 5 * 3));
  Batch batch;
  batch.inputs = torch::ones({4, 1, 2, 3});
  batch.targets = torch::zeros({4}, torch::kInt64);
  const at::Tensor outputs = model->forward(batch);
  EXPECT_EQ(outputs.sizes(), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(model->loss(outputs, batch).total.dim(), 0);
}

TEST(Mlp, ComputesItsFormula) {
  const std::shared_ptr<Model> model = MakeMlp({2, 2, 1});
  const torch::NoGradGuard no_grad;
  auto params = model->named_parameters();
  params["layers.0.weight"].copy_(torch::tensor({{1.f, 0.f}, {0.f, 1.f}}));
  params["layers.0.bias"].zero_();
  params["layers.1.weight"].copy_(torch::tensor({{2.f, 10.f}}));
  params["layers.1.bias"].fill_(1);
  Batch batch;
  batch.inputs = torch::tensor({{3.f, -4.f}});
  EXPECT_EQ(model->forward(batch)->item<float>(), 7);  // 2*relu(3) + 10*relu(-4) + 1
}

TEST(Classifier, HasTheLossAndTheMetricsOfItsTask) {
  const std::shared_ptr<Model> model = MakeMlp({4, 3});
  Batch batch;
  batch.inputs = torch::arange(8).to(torch::kFloat).view({2, 4});
  batch.targets = torch::tensor({2, 0}, torch::kLong);
  const Outputs outputs = model->forward(batch);
  const double by_default = model->loss(outputs, batch).total.item<double>();
  const ClassifierLoss squares = ClassifierLossByName("mse_loss").value();
  dynamic_cast<Classifier&>(*model).SetTask({.loss = squares, .eval_metrics = ClassifierTask::MakeMetrics{}});
  EXPECT_EQ(model->loss(outputs, batch).total.item<double>(), squares.mean(outputs, batch.targets).item<double>());
  EXPECT_NE(model->loss(outputs, batch).total.item<double>(), by_default);
  EXPECT_TRUE(model->sample_losses(outputs, batch).equal(squares.by_sample(outputs, batch.targets)));
  EXPECT_TRUE(model->metrics(/*is_train=*/false).empty());
  EXPECT_EQ(model->metrics(/*is_train=*/true)[0]->name(), "MulticlassAccuracy");
  dynamic_cast<Classifier&>(*model).SetTask({.loss = ClassifierLossByName("dice_loss").value()});
  EXPECT_THROW(model->sample_losses(outputs, batch), c10::NotImplementedError);
}

TEST(Mlp, InitialisationIsTheGeneratorsOnly) {
  torch::manual_seed(7);
  const auto a = MakeMlp({4, 4, 2});
  torch::manual_seed(7);
  const auto b = MakeMlp({4, 4, 2});
  for (const auto& item : a->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), b->named_parameters()[item.key()])) << item.key();
  }
  EXPECT_THROW(MakeMlp({4}), c10::ValueError);
  EXPECT_THROW(MakeMlp({4, 0}), c10::ValueError);
}

TEST(Mlp, LearnsASyntheticTask) {
  torch::manual_seed(1);
  const auto model = MakeMlp({64, 64, 64, 10});
  LoaderOptions options;
  options.global_batch_size = 64;
  options.shuffle = true;
  GaussianClassificationOptions task;
  task.separation = 0.6;
  DataLoader train(*MakeGaussianClassification(task), options);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  for (int64_t step = 0; step < 4 * train.batches_per_epoch(); ++step) {
    const int64_t epoch = step / train.batches_per_epoch(), n = step % train.batches_per_epoch();
    const Batch batch = train.Load(epoch, n * options.global_batch_size).batch;
    optimizer.zero_grad();
    model->loss(model->forward(batch), batch).total.backward();
    optimizer.step();
  }
  task.sample_seed = 1;
  task.size = 1000;
  options.global_batch_size = 1000;
  const Batch unseen = DataLoader(*MakeGaussianClassification(task), options).Load(0, 0).batch;
  const MetricList metrics = model->metrics(/*is_train=*/false);
  for (const auto& metric : metrics) metric->Update(model->eval_forward(unseen), unseen);
  EXPECT_EQ(metrics[0]->name(), "MulticlassAccuracy");
  EXPECT_GT(metrics[0]->Compute(), 0.9);
  EXPECT_EQ(metrics[1]->name(), "CrossEntropy");
  EXPECT_LT(metrics[1]->Compute(), 0.5);
}

}  // namespace
}  // namespace composer
