// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/adam_bf16.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/trainer/optim/optimizer_golden.h"
#include "trainer/optim/adam.h"
#include "trainer/optim/decoupled_adamw.h"

namespace composer {
namespace {

float Bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U); }

TEST(RoundToBf16Test, IsOneOfTheTwoNeighboursByChance) {
  const float low = Bf16(0x3f80), high = Bf16(0x3f81), x = low + 0.25F * (high - low);
  int64_t up = 0;
  for (uint32_t random = 0; random < 65536; ++random) {
    const float rounded = Bf16(RoundToBf16(x, random));
    ASSERT_TRUE(rounded == low || rounded == high) << rounded;
    up += rounded == high;
  }
  EXPECT_EQ(up, 16384);
}

TEST(RoundToBf16Test, KeepsWhatBf16CanHold) {
  for (const float x : {0.0F, -0.0F, 1.0F, -3.5F, std::numeric_limits<float>::infinity()}) {
    for (const uint32_t random : {0U, 65535U})
      EXPECT_EQ(std::bit_cast<uint32_t>(Bf16(RoundToBf16(x, random))), std::bit_cast<uint32_t>(x)) << x;
  }
  EXPECT_TRUE(std::isnan(Bf16(RoundToBf16(std::numeric_limits<float>::quiet_NaN(), 65535))));
}

struct Outcome {
  at::Tensor param, exp_avg_sq;
};

// `gradient` is that of step t >= 1, one for all elements.
template <typename Made, typename Options>
Outcome Train(const Options& options, int64_t size, int steps, const std::function<double(int)>& gradient) {
  const at::Tensor param = torch::full({size}, 2.0).requires_grad_(true);
  Made optimizer(OneGroup({param}, 0.01, 0.1), options);
  for (int t = 1; t <= steps; ++t) {
    param.mutable_grad() = torch::full({size}, gradient(t));
    optimizer.Step();
  }
  return {param.detach(), optimizer.state()[2].second};
}

template <typename Made, typename Options>
void ExpectNearFloat32(Options options) {
  const auto gradient = [](int t) { return 1 + 0.5 * std::sin(t); };
  const Outcome exact = Train<Made>(options, 4096, 100, gradient);
  options.bf16_state = true;
  const Outcome rounded = Train<Made>(options, 4096, 100, gradient);
  EXPECT_EQ(rounded.exp_avg_sq.scalar_type(), at::kBFloat16);
  const double moved = std::abs(exact.param[0].item<double>() - 2);
  ASSERT_GT(moved, 0.5);
  EXPECT_NEAR(rounded.param.mean().item<double>(), exact.param[0].item<double>(), 1e-3 * moved);
  // After 100 roundings of up to 0.4 % each v is off by 4 % (one sigma), its root by 2 %, and half of that on the way.
  EXPECT_LT((rounded.param - exact.param).abs().max().item<double>(), 0.03 * moved);
  EXPECT_GT((rounded.param - exact.param).abs().max().item<double>(), 0);
}

TEST(AdamBf16Test, FollowsFloat32OnAverage) {
  ExpectNearFloat32<AdamOptimizer>(AdamOptions{});
  ExpectNearFloat32<AdamWOptimizer>(AdamOptions{});
  ExpectNearFloat32<DecoupledAdamWOptimizer>(AdamWOptions{});
}

// Rounded to the nearest it would stay at its first value for good.
TEST(AdamBf16Test, TheSecondMomentShrinks) {
  const Outcome run = Train<AdamWOptimizer>(AdamOptions{.bf16_state = true}, 16384, 1000, [](int t) { return t == 1; });
  EXPECT_NEAR(run.exp_avg_sq.to(at::kFloat).mean().item<double>() / (0.001 * std::pow(0.999, 999)), 1, 0.01);
}

TEST(AdamBf16Test, BitsDoNotDependOnThreads) {
  const int before = at::get_num_threads();
  const auto run = [](int threads) {
    at::set_num_threads(threads);
    return Train<AdamWOptimizer>(AdamOptions{.bf16_state = true}, 100003, 3, [](int t) { return 0.1 * t; });
  };
  const Outcome one = run(1), three = run(3);
  at::set_num_threads(before);
  EXPECT_TRUE(one.param.equal(three.param));
  EXPECT_TRUE(one.exp_avg_sq.equal(three.exp_avg_sq));
}

TEST(AdamBf16Test, RefusesWhatItCannotDo) {
  const auto make = [](const at::Tensor& param, const AdamOptions& options) {
    AdamWOptimizer(OneGroup({param}, 0.01, 0), options);
  };
  EXPECT_THROW(make(torch::ones({2}, at::kBFloat16), {.bf16_state = true}), c10::ValueError);
  EXPECT_THROW(make(torch::ones({2}), {.amsgrad = true, .bf16_state = true}), c10::ValueError);
}

}  // namespace
}  // namespace composer
