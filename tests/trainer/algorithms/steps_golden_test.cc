// Compares gradient clipping, SAM, LBFGS and the samples that SelectiveBackprop keeps with those of mosaicml 0.32.1 and
// torch (tests/golden/steps.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/trainer/algorithms/step_algorithms.h"
#include "trainer/algorithms/augment/mixup.h"
#include "trainer/algorithms/schedule/layer_freezing.h"

namespace composer {
namespace {

using Json = nlohmann::json;

const Json& StepsGolden() {
  static const Json* golden = new Json(Json::parse(ReadFile("tests/golden/steps.json").value()));
  return *golden;
}

StepAlgorithm AlgorithmOf(const Json& run) {
  const Json& arguments = run["arguments"];
  StepAlgorithm algorithm;
  const bool clips = run["kind"] == "gradient_clipping";
  if (clips || run.contains("clipping")) {
    const Json clipping = clips ? arguments : run["clipping"];
    const std::string type = clipping["clipping_type"];
    algorithm.clipping = type == "norm"    ? ClippingType::kNorm
                         : type == "value" ? ClippingType::kValue
                                           : ClippingType::kAdaptive;
    algorithm.threshold = clipping["clipping_threshold"];
  }
  if (run["kind"] == "sam") {
    algorithm.sam = SamOptions{.rho = arguments["rho"], .interval = arguments.value("interval", 1)};
  } else if (run["kind"] == "label_smoothing") {
    algorithm.label_smoothing = arguments["smoothing"].get<double>();
  } else if (!clips) {
    algorithm.lbfgs = LbfgsOptions{.max_iter = arguments["max_iter"],
                                   .history_size = arguments.value("history_size", 100),
                                   .strong_wolfe = arguments.contains("line_search_fn")};
    algorithm.lbfgs_lr = arguments["lr"];
  }
  return algorithm;
}

TEST(StepsGolden, WeightsAndLossesAreComposers) {
  for (const Json& run : StepsGolden()["runs"]) {
    SCOPED_TRACE(run["kind"].dump() + run["arguments"].dump());
    TrainerOptions options = StepRun(AlgorithmOf(run));
    options.train.shuffle = false;
    options.device_train_microbatch_size = run["microbatch"];
    options.train.global_train_batch_size = run.value("batch", 8);
    const RunResult result = Train(std::move(options));
    ASSERT_TRUE(result.status.ok()) << result.status;
    // LBFGS amplifies rounding: its differences of gradients are small.
    const bool amplifies = run["kind"] == "lbfgs";
    const auto expected = run["losses"].get<std::vector<double>>();
    ASSERT_EQ(result.losses.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(result.losses[i], expected[i], amplifies ? 1e-4 : 2e-6) << i;
    const auto final = run["final"].get<std::vector<double>>();
    size_t next = 0;
    for (const auto& [name, tensor] : result.tensors) {
      const at::Tensor flat = tensor.flatten();
      for (int64_t i = 0; i < flat.numel(); ++i)
        ASSERT_NEAR(flat[i].item<double>(), final[next++], amplifies ? 1e-3 : 5e-6) << name << " " << i;
    }
    EXPECT_EQ(next, final.size());
  }
}

at::Tensor Flat(const Json& values) { return torch::tensor(values.get<std::vector<double>>(), at::kFloat); }

TEST(StepsGolden, MixUpMixesAsComposer) {
  Draws draws(5);
  at::Tensor inputs = torch::empty({6, 3});
  for (int64_t i = 0; i < inputs.numel(); ++i) inputs.view(-1)[i] = draws.Next();
  for (const Json& golden : StepsGolden()["mixes"]) {
    const at::Tensor permutation = torch::tensor(golden["permutation"].get<std::vector<int64_t>>());
    const at::Tensor mixed = MixUpBatch(inputs, golden["mixing"], permutation);
    EXPECT_TRUE(torch::allclose(mixed.flatten(), Flat(golden["mixed"]), 1e-6, 1e-7)) << golden["mixing"];
    EXPECT_EQ(golden["targets"], golden["permutation"]);
  }
}

TEST(StepsGolden, LayersAreFrozenAsInComposer) {
  for (const Json& golden : StepsGolden()["freezes"]) {
    torch::nn::Sequential net;
    for (int i = 0; i < 8; ++i) net->push_back(torch::nn::Linear(2, 2));
    const double part = FrozenPart({golden["freeze_start"], golden["freeze_level"]}, golden["elapsed"]);
    EXPECT_NEAR(part, golden["part"].get<double>(), 1e-12);
    EXPECT_EQ(FreezeLayers(*net, part), golden["depth"].get<int64_t>()) << golden.dump();
    int64_t frozen = 0;
    for (const at::Tensor& param : net->parameters()) frozen += param.requires_grad() ? 0 : 1;
    EXPECT_EQ(frozen, 2 * golden["depth"].get<int64_t>());
  }
}

TEST(StepsGolden, SelectiveBackpropKeepsTheSamplesThatNumpyDraws) {
  for (const Json& golden : StepsGolden()["selections"]) {
    const auto draws = golden["draws"].get<std::vector<double>>();
    size_t used = 0;
    const auto uniform = [&](int64_t count) {
      const auto from = draws.begin() + static_cast<std::ptrdiff_t>(used);
      used += static_cast<size_t>(count);
      return std::vector<double>(from, from + count);
    };
    EXPECT_EQ(SelectByLoss(golden["losses"].get<std::vector<double>>(), golden["keep"], uniform),
              golden["kept"].get<std::vector<int64_t>>());
  }
}

}  // namespace
}  // namespace composer
