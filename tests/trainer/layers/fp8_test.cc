// Tests linear layers in 8 bits against formulas in float64: rounding, products, histories and gradients.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include "trainer/layers/fp8_linear.h"
#include "trainer/layers/fp8_product.h"
#include "trainer/loop/autocast.h"

namespace composer {
namespace {

using testing::ElementsAre;

struct Type {
  at::ScalarType type;
  int fraction, smallest_exponent;
  double largest;
};
constexpr Type kTypes[] = {{at::kFloat8_e4m3fn, 3, -6, 448}, {at::kFloat8_e5m2, 2, -14, 57344}};

// Rounds to the nearest value of the type, to an even fraction if two are as near.
double Rounded(double x, const Type& type) {
  const double within = std::clamp(x, -type.largest, type.largest);
  const int exponent = within == 0 ? type.smallest_exponent : std::max(std::ilogb(within), type.smallest_exponent);
  const double step = std::ldexp(1.0, exponent - type.fraction);
  return std::nearbyint(within / step) * step;
}

at::Tensor Values(const Fp8Matrix& x) { return x.values.to(at::kFloat) * x.inverse; }

TEST(Fp8, RoundsByTheFormula) {
  torch::manual_seed(1);
  const at::Tensor x = torch::randn({64, 32}) * torch::randn({64, 1}).mul_(6).exp_();
  for (const Type& type : kTypes) {
    for (const int64_t margin : {0, 3}) {
      const Fp8Matrix rounded = ToFp8(x, type.type, Amax(x), margin);
      ASSERT_EQ(rounded.values.scalar_type(), type.type);
      const float inverse = rounded.inverse.item<float>();
      EXPECT_FLOAT_EQ(inverse,
                      x.abs().max().item<float>() * static_cast<float>(1 << margin) / static_cast<float>(type.largest));
      const at::Tensor got = rounded.values.to(at::kFloat);
      const float scale = 1 / inverse;
      for (int64_t i = 0; i < x.numel(); ++i) {
        const float scaled = x.data_ptr<float>()[i] * scale;
        ASSERT_EQ(got.data_ptr<float>()[i], Rounded(scaled, type)) << scaled << " to " << type.type;
      }
    }
  }
}

TEST(Fp8, WhatIsBeyondTheRangeBecomesItsEnd) {
  const at::Tensor x = torch::tensor({{1.0F, -4.0F, 0.5F}}), amax = torch::tensor({1.0F});
  for (const Type& type : kTypes)
    EXPECT_TRUE(Values(ToFp8(x, type.type, amax, 0)).allclose(torch::tensor({{1.0F, -1.0F, 0.5F}}))) << type.type;
  EXPECT_TRUE(
      Values(ToFp8(torch::zeros({2, 2}), at::kFloat8_e4m3fn, torch::zeros({1}), 0)).equal(torch::zeros({2, 2})));
}

TEST(Fp8, AmaxIsTheLargestAndShowsWhatIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Amax(torch::tensor({1.0F, -3.0F})).item<float>(), 3);
  EXPECT_EQ(Amax(torch::tensor({1.0F, -3.0F}).to(at::kBFloat16)).scalar_type(), at::kFloat);
  EXPECT_EQ(Amax(torch::empty({0, 4})).item<float>(), 0);
  for (const float bad : {kNan, kInfinity}) {
    const at::Tensor x = torch::tensor({{1.0F, bad, 2.0F}});
    EXPECT_FALSE(std::isfinite(Amax(x).item<float>()));
    EXPECT_TRUE(Values(ToFp8(x, at::kFloat8_e4m3fn, Amax(x), 0)).isnan().any().item<bool>());
  }
}

TEST(Fp8, ProductsAreThoseOfTheRoundedValues) {
  torch::manual_seed(2);
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{16, 32, 48}, {64, 16, 128}}) {
    const at::Tensor x = torch::randn({m, k}), w = torch::randn({n, k});
    const Fp8Matrix a = ToFp8(x, at::kFloat8_e5m2, Amax(x), 0), b = ToFp8(w, at::kFloat8_e4m3fn, Amax(w), 0);
    const at::Tensor expected = at::mm(Values(a).to(at::kDouble), Values(b).to(at::kDouble).t());
    EXPECT_TRUE(ScaledProduct(a, b, at::kFloat, false).to(at::kDouble).allclose(expected, 1e-5, 1e-5));
    const at::Tensor narrow = ScaledProduct(a, b, at::kBFloat16, true);
    EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(narrow.to(at::kDouble).allclose(expected, 1.0 / 256, 1e-2));
    EXPECT_TRUE(Values(Transposed(a)).equal(Values(a).t()));
  }
}

std::vector<float> Floats(const at::Tensor& x) {
  const at::Tensor flat = x.contiguous().view(-1);
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

// The amax by which the next step scales an input whose own is 1, after steps with these.
float UsedAfter(const Fp8Recipe& recipe, const std::vector<float>& steps) {
  Fp8Scaling scaling(recipe);
  const size_t layer = scaling.AddLayer("a");
  scaling.Start(at::kCPU);
  for (const float amax : steps) {
    scaling.AmaxOf(layer, Fp8Operand::kInput, torch::full({2}, amax / 2));
    scaling.AmaxOf(layer, Fp8Operand::kInput, torch::full({2}, -amax));
    scaling.Advance(scaling.recorded().clone());
  }
  return scaling.AmaxOf(layer, Fp8Operand::kInput, torch::ones({2})).item<float>();
}

TEST(Fp8Scaling, LooksBackByItsAlgorithm) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Fp8Recipe max{.amax_history_len = 2};
  EXPECT_EQ(UsedAfter(max, {}), 1) << "its own";
  EXPECT_EQ(UsedAfter(max, {5}), 5);
  EXPECT_EQ(UsedAfter(max, {5, 3}), 5);
  EXPECT_EQ(UsedAfter(max, {5, 3, 2}), 3);
  EXPECT_EQ(UsedAfter(max, {5, 3, kNan}), 3) << "a step that is not finite repeats the one before";
  EXPECT_EQ(UsedAfter(max, {0, 0}), 1);
  const Fp8Recipe recent{.amax_history_len = 2, .amax_compute_algo = Fp8AmaxAlgo::kMostRecent};
  EXPECT_EQ(UsedAfter(recent, {5, 3}), 3);
  EXPECT_EQ(UsedAfter({.scaling = Fp8Scales::kCurrent}, {5, 3}), 1);
}

TEST(Fp8Scaling, OneStepHasOneScale) {
  Fp8Scaling scaling(Fp8Recipe{});
  const size_t layer = scaling.AddLayer("a");
  scaling.Start(at::kCPU);
  scaling.AmaxOf(layer, Fp8Operand::kGradient, torch::full({1}, 4.0F));
  scaling.Advance(scaling.recorded().clone());
  for (const float own : {1.0F, 8.0F, 1.0F})
    EXPECT_EQ(scaling.AmaxOf(layer, Fp8Operand::kGradient, torch::full({1}, own)).item<float>(), 4);
  EXPECT_THAT(Floats(scaling.recorded()), ElementsAre(0, 0, 8));
  EXPECT_TRUE(std::isnan(scaling.AmaxOf(layer, Fp8Operand::kGradient, torch::full({1}, INFINITY)).item<float>()));
}

TEST(Fp8Scaling, TakesOverWhatStillApplies) {
  Fp8Scaling scaling(Fp8Recipe{.amax_history_len = 2});
  scaling.AddLayer("b");
  scaling.AddLayer("new");
  scaling.Start(at::kCPU);
  scaling.SetHistory({"a", "b"}, torch::arange(1, 19, at::kFloat).view({6, 3}));
  EXPECT_THAT(Floats(scaling.history()), ElementsAre(10, 11, 13, 14, 16, 17, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(scaling.AmaxOf(0, Fp8Operand::kInput, torch::ones({1})).item<float>(), 11);
  EXPECT_EQ(scaling.AmaxOf(1, Fp8Operand::kInput, torch::ones({1})).item<float>(), 1);
}

class Fp8Layer : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    linear_ = std::make_shared<LinearLayer>(32, 48);
    layer_ = std::make_shared<Fp8LinearLayer>(*linear_, "layer", scaling_);
    x_ = torch::randn({2, 16, 32}).requires_grad_();
    dy_ = torch::randn({2, 16, 48});
  }
  at::Tensor Run(Layer& layer) const {
    const AutocastScope autocast(Precision::kAmpFp8, at::kCPU);
    return layer.forward(x_);
  }
  static at::Tensor InFp8(const at::Tensor& x, at::ScalarType type) {
    return Values(ToFp8(x.detach().reshape({-1, x.size(-1)}), type, Amax(x.detach()), 0)).to(at::kDouble);
  }

  c10::intrusive_ptr<Fp8Scaling> scaling_ = c10::make_intrusive<Fp8Scaling>(Fp8Recipe{.scaling = Fp8Scales::kCurrent});
  std::shared_ptr<LinearLayer> linear_;
  std::shared_ptr<Fp8LinearLayer> layer_;
  at::Tensor x_, dy_;
};

TEST_F(Fp8Layer, OutputAndGradientsAreThoseOfTheRoundedFactors) {
  const at::Tensor y = Run(*layer_);
  ASSERT_EQ(y.scalar_type(), at::kBFloat16);
  ASSERT_EQ(y.sizes(), (std::vector<int64_t>{2, 16, 48}));
  const at::Tensor dy = dy_.to(at::kBFloat16);
  y.backward(dy);
  const at::Tensor x8 = InFp8(x_, at::kFloat8_e4m3fn), w8 = InFp8(layer_->weight, at::kFloat8_e4m3fn),
                   dy8 = InFp8(dy, at::kFloat8_e5m2);
  const auto near = [](const at::Tensor& got, const at::Tensor& expected, double relative) {
    return got.detach().to(at::kDouble).view_as(expected).allclose(expected, relative, relative);
  };
  EXPECT_TRUE(near(y, at::mm(x8, w8.t()) + layer_->bias.detach().to(at::kDouble), 1.0 / 64));
  EXPECT_TRUE(near(x_.grad(), at::mm(dy8, w8), 1e-5));
  EXPECT_TRUE(near(layer_->weight.grad(), at::mm(dy8.t(), x8), 1e-5));
  EXPECT_TRUE(near(layer_->bias.grad(), dy.reshape({-1, 48}).to(at::kDouble).sum(0), 1e-5));
  EXPECT_TRUE(layer_->weight.is_same(linear_->weight)) << "the very parameters";
}

TEST_F(Fp8Layer, IsNearTheSameInBfloat16ButNotTheSame) {
  const at::Tensor bf16 = Run(*linear_).to(at::kFloat), fp8 = Run(*layer_).to(at::kFloat);
  EXPECT_LT((bf16 - fp8).norm().item<float>(), 0.06F * bf16.norm().item<float>());
  EXPECT_GT((bf16 - fp8).norm().item<float>(), 0.005F * bf16.norm().item<float>());
}

TEST_F(Fp8Layer, IsALinearLayerWhereItDoesNotTake) {
  const auto same = [&] { return Run(*layer_).equal(Run(*linear_)); };
  EXPECT_FALSE(same());
  EXPECT_TRUE(layer_->forward(x_).equal(linear_->forward(x_))) << "autocast is off";
  layer_->eval();
  EXPECT_TRUE(same()) << "an evaluation";
  layer_->train();
  scaling_->SetOn(false);
  EXPECT_TRUE(same()) << "another precision";
  scaling_->SetOn(true);
  x_ = torch::randn({17, 32});
  EXPECT_TRUE(same()) << "17 rows";
}

TEST_F(Fp8Layer, HasNoGradientOfItsGradient) {
  const at::Tensor y = Run(*layer_).to(at::kFloat).sum();
  EXPECT_THROW(y.backward({}, /*retain_graph=*/true, /*create_graph=*/true), c10::ValueError);
}

TEST_F(Fp8Layer, RefusesOtherSizes) {
  EXPECT_EQ(WhyNotFp8(*linear_), "");
  EXPECT_EQ(WhyNotFp8(LinearLayer(30, 48)), "30 inputs are not a multiple of 16");
  EXPECT_EQ(WhyNotFp8(LinearLayer(32, 10)), "10 outputs are not a multiple of 16");
}

}  // namespace
}  // namespace composer
