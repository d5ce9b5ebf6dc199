// 50 steps of an MLP beside mosaicml 0.32.1 with the same weights, data and optimizer (tests/golden/loss_curve.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/decoupled_adamw.h"

namespace composer {
namespace {

using Json = nlohmann::json;

TEST(LossCurve, IsMosaicmls) {
  const Json golden = Json::parse(ReadFile("tests/golden/loss_curve.json").value());
  TrainerOptions options = SmallRun();
  options.model = MakeMlp({64, 64, 64, 10});
  FillParameters(*options.model, 0.125F);
  double norm = 0;
  for (const at::Tensor& param : options.model->parameters())
    norm += param.detach().to(at::kDouble).square().sum().item<double>();
  ASSERT_NEAR(std::sqrt(norm), golden["initial_norm"].get<double>(), 1e-6) << "not the same initial weights";
  options.train.dataset = MakeRows(80, 64, 10);
  const Batch first = options.train.dataset->Load({0, 1, 2, 3});
  EXPECT_FLOAT_EQ(first.inputs[0][0].item<float>(), golden["first_sample_first4"][0].get<float>());
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(first.targets[i].item<int64_t>(), golden["first_labels"][static_cast<size_t>(i)].get<int64_t>());
  options.train.shuffle = false;
  options.train.global_train_batch_size = golden["batch"];
  options.device_train_microbatch_size = golden["microbatch"];
  options.max_duration = Time::Epochs(10);
  options.make_optimizer = [&](Model& model) {
    auto groups = MakeTestAdamW(model, golden["optimizer"]["lr"])->groups();
    groups[0].weight_decay = golden["optimizer"]["weight_decay"];
    AdamWOptions adam;
    adam.beta1 = golden["optimizer"]["betas"][0], adam.beta2 = golden["optimizer"]["betas"][1];
    adam.eps = golden["optimizer"]["eps"];
    return std::make_unique<DecoupledAdamW>(std::move(groups), adam);
  };
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  const std::vector<double> losses = golden["losses"];
  ASSERT_EQ(result.losses.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(result.losses[i], losses[i], 2e-5 * losses[i]) << "step " << i;
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    const at::Tensor flat = result.tensors[i].second.flatten();
    for (int64_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(flat[j].item<double>(), golden["final_first4"][i][static_cast<size_t>(j)].get<double>(), 2e-4)
          << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace composer
