// Tests optimizers that update during backward (AdamOptions::in_backward).
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/trainer/loop/golden_gpt.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/callbacks/monitors/optimizer_monitor.h"
#include "trainer/optim/adam.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/model_params.h"

namespace composer {
namespace {

using testing::HasSubstr;

template <typename Made, typename Options>
OptimizerFactory With(Options adam, bool in_backward, double lr = 0.01) {
  adam.in_backward = in_backward;
  return
      [=](Model& model) { return std::make_unique<Made>(ParamGroupsOf(model, {.lr = lr, .weight_decay = 0.1}), adam); };
}

TrainerOptions InBackward(TrainerOptions options) {
  options.make_optimizer = With<AdamWOptimizer>(AdamOptions{}, true);
  return options;
}

template <typename Made, typename Options>
void ExpectSameAsAfter(const Options& adam, double lr, const std::function<TrainerOptions()>& run) {
  RunResult results[2];
  for (const bool in_backward : {false, true}) {
    TrainerOptions options = run();
    options.make_optimizer = With<Made>(adam, in_backward, lr);
    results[in_backward ? 1 : 0] = Train(std::move(options));
  }
  ExpectSameBits(results[1], results[0]);
}

TEST(UpdateInBackwardTest, HasTheBitsOfAnUpdateAfterIt) {
  const auto run = [] { return SmallRun({.batch_norm = true}); };
  ExpectSameAsAfter<AdamOptimizer>(AdamOptions{}, 0.01, run);
  ExpectSameAsAfter<AdamWOptimizer>(AdamOptions{.amsgrad = true}, 0.01, run);
  ExpectSameAsAfter<AdamWOptimizer>(AdamOptions{.bf16_state = true}, 0.01, run);
  ExpectSameAsAfter<DecoupledAdamWOptimizer>(AdamWOptions{}, 0.01, run);
  ExpectSameAsAfter<DecoupledAdamWOptimizer>(AdamWOptions{}, 0, run);
}

// The embedding of a GPT is its head, too: it has one gradient, which is complete only at the end of backward.
TEST(UpdateInBackwardTest, ATiedParameterIsUpdatedOnce) {
  ExpectSameAsAfter<AdamWOptimizer>(AdamOptions{}, 0.01, [] {
    TrainerOptions options = SmallRun();
    options.model = MakeGoldenGpt({.layers = 2, .heads = 2, .width = 16, .context = 8, .vocab = 20});
    const at::Tensor tokens = (torch::arange(24 * 8, at::kLong) * 7 % 20).view({24, 8});
    options.train.dataset = MakeTensorRows(tokens, tokens, 8);
    return options;
  });
}

TEST(UpdateInBackwardTest, FreesEachGradientBeforeBackwardIsOver) {
  TrainerOptions options = InBackward(SmallRun());
  int64_t steps = 0;
  AddCallback(options, {Event::kAfterBackward}, [&](State& state) {
    ++steps;
    for (const at::Tensor& param : state.model->parameters()) EXPECT_FALSE(param.grad().defined());
  });
  EXPECT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(steps, 10);
}

// The last parameter's gradient comes first.
TrainerOptions WithNanAt(int64_t batch) {
  TrainerOptions options = InBackward(SmallRun());
  AddCallback(options, {Event::kInit}, [batch](State& state) {
    state.model->parameters()[0].register_hook(
        [&state, batch](const at::Tensor& grad) { return state.timestamp.batch == batch ? grad * NAN : grad; });
  });
  return options;
}

TEST(UpdateInBackwardTest, StopsAtAGradientThatIsNotFinite) {
  const RunResult result = Train(WithNanAt(6));
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("a gradient of batch 7 (epoch 1) is NaN or infinite"));
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("whose gradients came before it were updated"));
  EXPECT_TRUE(result.tensors.empty() || result.tensors[0].second.isfinite().all().item<bool>());
}

TEST(UpdateInBackwardTest, ContinuesIfAskedTo) {
  TrainerOptions options = WithNanAt(6);
  options.on_nan = OnNan::kContinue;
  const RunResult result = Train(std::move(options));
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_TRUE(result.tensors.at(0).second.isnan().all().item<bool>());
}

void ExpectRefused(const std::function<void(TrainerOptions&)>& change, const std::string& why) {
  TrainerOptions options = InBackward(SmallRun());
  change(options);
  const absl::Status status = Train(std::move(options)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(UpdateInBackwardTest, RefusesWhatNeedsAllGradientsFirst) {
  ExpectRefused([](TrainerOptions& options) { options.virtual_shards = 4; }, "determinism: elastic");
  ExpectRefused([](TrainerOptions& options) { options.precision = Precision::kAmpFp16; }, "precision: amp_fp16");
  ExpectRefused([](TrainerOptions& options) { options.on_nan = OnNan::kSkip; }, "on_nan: skip");
  ExpectRefused([](TrainerOptions& options) { options.device_train_microbatch_size = kAutoMicrobatch; },
                "device_train_microbatch_size: auto");
  ExpectRefused([](TrainerOptions& options) { options.device_train_microbatch_size = 4; },
                "a second gradient in a step");
  ExpectRefused(
      [](TrainerOptions& options) {
        options.algorithms.push_back(std::make_unique<GradientClipping>(ClippingType::kNorm, 1));
      },
      "the algorithm GradientClipping");
  ExpectRefused(
      [](TrainerOptions& options) {
        options.callbacks.push_back(std::make_unique<OptimizerMonitor>(OptimizerMonitor::Options{}));
      },
      "optimizer_monitor");
}

TEST(UpdateInBackwardTest, RefusesSeveralRanks) {
  for (const RunResult& result : TrainOnRanks(2, [](int) { return InBackward(SmallRun()); }))
    EXPECT_THAT(std::string(result.status.message()), HasSubstr("several ranks"));
}

}  // namespace
}  // namespace composer
