// Tests GELU on a CPU with every number that bfloat16 has, and in float32 with numbers of all sizes, beside LibTorch's
// in float64.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_gelu.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "trainer/layers/torch_layers.h"

namespace composer {
namespace {

// All numbers from -2^100 to 2^100: bits 0 to 0x7fff with both signs, without those beyond.
at::Tensor AllNumbers() {
  const at::Tensor bits = torch::arange(0, 1 << 16, at::kInt).to(at::kShort);
  const at::Tensor all = bits.view(at::kBFloat16);
  return all.index({all.to(at::kFloat).abs() < 1e30F}).contiguous();
}

// The distance in units of the last place of bfloat16, at the larger of the two.
double LargestDistance(const at::Tensor& got, const at::Tensor& expected) {
  const at::Tensor a = got.detach().to(at::kDouble), b = expected.detach().to(at::kDouble);
  const at::Tensor size = at::maximum(a.abs(), b.abs()).clamp_min(1e-37);
  return ((a - b).abs() / at::pow(2.0, size.log2().floor() - 7)).max().item<double>();
}

TEST(CpuGelu, EveryNumber) {
  const at::Tensor x = AllNumbers();
  ASSERT_GT(x.numel(), 58000);
  const at::Tensor expected = at::gelu(x.to(at::kDouble), "tanh");
  const at::Tensor got = kernels::GeluByTanh(x);
  ASSERT_EQ(got.scalar_type(), at::kBFloat16);
  // Below -5 the factor's own last bits are lost in 1 + tanh(u) of any precision.
  const at::Tensor known = x.to(at::kFloat) > -5;
  EXPECT_LE(LargestDistance(got.index({known}), expected.index({known})), 0.51);
  EXPECT_TRUE(at::allclose(got.to(at::kDouble), expected, 1.0 / 128, 1e-6));
}

TEST(CpuGelu, GradientOfEveryNumber) {
  const at::Tensor x = AllNumbers();
  for (const double scale : {1.0, -0.37}) {
    at::Tensor leaf = x.clone().requires_grad_();
    const at::Tensor dy = torch::full_like(x, scale);
    kernels::GeluByTanh(leaf).backward(dy);
    const at::Tensor expected = at::gelu_backward(dy.to(at::kDouble), x.to(at::kDouble), "tanh");
    EXPECT_TRUE(at::allclose(leaf.grad().to(at::kDouble), expected, 1.0 / 128, 1e-6));
  }
}

TEST(CpuGelu, WhatIsNotANumberStaysSo) {
  at::Tensor x = torch::tensor({NAN, 1.0F, INFINITY}).to(at::kBFloat16).requires_grad_();
  const at::Tensor y = kernels::GeluByTanh(x);
  EXPECT_TRUE(y[0].isnan().item<bool>());
  EXPECT_TRUE(y[2].isinf().item<bool>());
  y.backward(torch::tensor({1.0F, NAN, 1.0F}).to(at::kBFloat16));
  EXPECT_TRUE(x.grad()[0].isnan().item<bool>());
  EXPECT_TRUE(x.grad()[1].isnan().item<bool>());
}

// Numbers of all sizes, densest where the function bends.
at::Tensor Singles() {
  torch::manual_seed(7);
  return at::cat({torch::randn({20011}) * 3, torch::randn({1000}) * 1e-6, torch::linspace(-90, 90, 5003)});
}

TEST(CpuGelu, InFloat32WithinAFewLastBits) {
  const at::Tensor x = Singles(), wide = x.to(at::kDouble);
  at::Tensor leaf = x.clone().requires_grad_();
  const at::Tensor y = kernels::GeluByTanh(leaf), dy = torch::randn_like(x);
  ASSERT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_LE(((y.detach() - at::gelu(wide, "tanh")) / wide).abs().max().item<double>(), 3e-7);
  y.backward(dy);
  const at::Tensor expected = at::gelu_backward(dy.to(at::kDouble), wide, "tanh");
  EXPECT_LE(((leaf.grad() - expected) / dy).abs().max().item<double>(), 1e-6);
}

TEST(CpuGelu, FarFromZeroItIsALineOrNothing) {
  for (const float size : {9.9F, 10.0F, 11.0F, 1e13F, 3e30F, INFINITY}) {
    at::Tensor x = torch::tensor({size, -size}).requires_grad_();
    const at::Tensor y = kernels::GeluByTanh(x), slope = torch::autograd::grad({y.sum()}, {x})[0];
    EXPECT_EQ(y[0].item<float>(), size);
    EXPECT_EQ(slope[0].item<float>(), 1) << size;
    EXPECT_NEAR(slope[1].item<float>(), 0, 1e-30) << size;
  }
}

TEST(CpuGelu, InFloat32TheSameForEveryNumberOfThreads) {
  const at::Tensor x = Singles();
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor y = kernels::CpuGeluForward(x), dx = kernels::CpuGeluBackward(x, x);
  at::set_num_threads(3);
  EXPECT_TRUE(kernels::CpuGeluForward(x).equal(y));
  EXPECT_TRUE(kernels::CpuGeluBackward(x, x).equal(dx));
  at::set_num_threads(threads);
}

TEST(CpuGelu, LayersUseItByTanhAlone) {
  torch::manual_seed(5);
  GeluLayer by_tanh(torch::nn::GELUOptions().approximate("tanh")), by_erf;
  const at::Tensor x = torch::randn({3, 5, 7}).transpose(0, 2), narrow = x.to(at::kBFloat16);
  for (const at::Tensor& of : {x, narrow}) {
    EXPECT_TRUE(by_tanh.forward(of).equal(kernels::CpuGeluForward(of)));
    EXPECT_TRUE(by_erf.forward(of).equal(at::gelu(of)));
  }
  EXPECT_TRUE(by_tanh.forward(x.to(at::kDouble)).equal(at::gelu(x.to(at::kDouble), "tanh")));
  EXPECT_TRUE(at::allclose(by_tanh.forward(narrow), at::gelu(narrow, "tanh"), 1.0 / 128, 1e-6));
}

TEST(CpuGelu, ItsGradientHasOne) {
  at::Tensor x = torch::tensor({0.5F, -1.0F}).to(at::kBFloat16).requires_grad_();
  const at::Tensor first =
      torch::autograd::grad({kernels::GeluByTanh(x).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  EXPECT_TRUE(torch::autograd::grad({first.sum()}, {x})[0].defined());
}

}  // namespace
}  // namespace composer
