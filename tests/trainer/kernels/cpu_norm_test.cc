// Tests the norms of a CPU in mixed precision, with the sum before them, beside LibTorch's operators in double.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

#include "trainer/layers/fused_layers.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/loop/autocast.h"

namespace composer {
namespace {

struct NormCase {
  at::Tensor x, branch, dy, dsum;  // branch: undefined for none
  kernels::NormWeights weights;
};

NormCase MakeNormCase(at::IntArrayRef shape, std::optional<at::ScalarType> branch, bool bias, bool centred) {
  torch::manual_seed(3);
  const int64_t width = shape.back();
  NormCase made;
  made.x = torch::randn(shape) + 0.7;
  if (branch) made.branch = torch::randn(shape).to(*branch);
  made.dy = torch::randn(shape).to(at::kBFloat16);
  made.dsum = torch::randn(shape);
  made.weights = {torch::randn({width}), bias ? torch::randn({width}) : at::Tensor(), 1e-5, centred};
  return made;
}

// sum, y and the gradients of x, branch, weight, bias; of which there is none, zeros.
std::vector<at::Tensor> ComputeNorm(const NormCase& of, bool ours) {
  const at::ScalarType type = ours ? at::kFloat : at::kDouble;
  const auto leaf = [](const at::Tensor& x, at::ScalarType as) {
    return x.defined() ? x.detach().to(as).clone().requires_grad_() : x;
  };
  const at::Tensor x = leaf(of.x, type),
                   branch = leaf(of.branch, ours && of.branch.defined() ? of.branch.scalar_type() : type);
  const at::Tensor weight = leaf(of.weights.weight, type), bias = leaf(of.weights.bias, type);
  kernels::SumAndNorm both;
  if (ours) {
    both = kernels::CpuAddNorm(x, branch, {weight, bias, of.weights.eps, of.weights.centred});
  } else {
    both.sum = branch.defined() ? x + branch : x;
    const std::optional<at::Tensor> shift = bias.defined() ? std::optional(bias) : std::nullopt;
    both.y = of.weights.centred ? at::layer_norm(both.sum, weight.sizes(), weight, shift, of.weights.eps)
                                : both.sum * at::rsqrt(both.sum.square().mean(-1, true) + of.weights.eps) * weight;
  }
  if (branch.defined()) {
    torch::autograd::backward({both.y, both.sum}, {of.dy.to(both.y.scalar_type()), of.dsum.to(type)});
  } else {
    both.y.backward(of.dy.to(both.y.scalar_type()));
  }
  std::vector<at::Tensor> all = {both.sum.detach(), both.y.detach()};
  for (const at::Tensor& of_leaf : {x, branch, weight, bias})
    all.push_back(of_leaf.defined() ? of_leaf.grad() : torch::zeros({1}));
  return all;
}

void ExpectLibTorchs(const NormCase& of) {
  const std::vector<at::Tensor> got = ComputeNorm(of, true), expected = ComputeNorm(of, false);
  for (size_t i = 0; i < got.size(); ++i) {
    const double relative = got[i].scalar_type() == at::kBFloat16 ? 1.0 / 256 : 1e-5;
    EXPECT_TRUE(at::allclose(got[i].to(at::kDouble), expected[i].to(at::kDouble), relative, 1e-5))
        << i << ": " << (got[i].to(at::kDouble) - expected[i].to(at::kDouble)).abs().max();
  }
}

TEST(CpuNorm, IsLibTorchsForEveryShape) {
  const std::vector<std::vector<int64_t>> shapes = {{5}, {3, 1}, {7, 15}, {2, 5, 16}, {67, 33}, {4, 9, 128}, {3, 768}};
  for (const std::vector<int64_t>& shape : shapes) {
    for (const std::optional<at::ScalarType> branch :
         {std::optional<at::ScalarType>(), {at::kFloat}, {at::kBFloat16}}) {
      for (const bool centred : {true, false}) {
        SCOPED_TRACE(testing::Message() << at::IntArrayRef(shape) << ' ' << branch.has_value() << ' ' << centred);
        ExpectLibTorchs(MakeNormCase(shape, branch, /*bias=*/centred, centred));
      }
    }
  }
  ExpectLibTorchs(MakeNormCase({6, 24}, at::kBFloat16, /*bias=*/false, /*centred=*/true));
}

TEST(CpuNorm, TakesOtherLayouts) {
  NormCase of = MakeNormCase({8, 24}, at::kBFloat16, true, true);
  of.x = torch::randn({24, 8}).t();
  of.branch = torch::randn({24, 8}).to(at::kBFloat16).t();
  of.dsum = torch::ones({1}).expand({8, 24});
  ExpectLibTorchs(of);
}

TEST(CpuNorm, IsTheSameForEveryNumberOfThreads) {
  const NormCase of = MakeNormCase({1201, 96}, at::kBFloat16, true, true);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<at::Tensor> one = ComputeNorm(of, true);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    const std::vector<at::Tensor> more = ComputeNorm(of, true);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(more[i].equal(one[i])) << i;
  }
  at::set_num_threads(before);
}

TEST(CpuNorm, OnlyTheSumMayHaveBeenUsed) {
  const NormCase of = MakeNormCase({3, 8}, at::kBFloat16, true, true);
  const at::Tensor x = of.x.clone().requires_grad_(), branch = of.branch.clone().requires_grad_();
  kernels::CpuAddNorm(x, branch, of.weights).sum.backward(of.dsum);
  EXPECT_TRUE(x.grad().equal(of.dsum));
  EXPECT_TRUE(branch.grad().equal(of.dsum.to(at::kBFloat16)));
}

TEST(CpuNorm, ItsGradientHasOne) {
  for (const bool centred : {true, false}) {
    const NormCase of = MakeNormCase({3, 8}, at::kFloat, false, centred);
    const auto second = [&](bool ours) {
      const at::Tensor x = of.x.detach().clone().requires_grad_(), branch = of.branch.clone().requires_grad_();
      at::Tensor y;
      if (ours) {
        y = kernels::CpuAddNorm(x, branch, of.weights).y;
      } else {
        const at::Tensor sum = x + branch;
        y = centred ? at::layer_norm(sum, {8}, of.weights.weight, {}, 1e-5)
                    : sum * at::rsqrt(sum.square().mean(-1, true) + 1e-5) * of.weights.weight;
      }
      const at::Tensor first =
          torch::autograd::grad({y}, {x}, {of.dy.to(y.scalar_type())}, /*retain_graph=*/true, /*create_graph=*/true)[0];
      return torch::autograd::grad({first.square().sum()}, {branch})[0];
    };
    EXPECT_TRUE(at::allclose(second(true), second(false), 1e-3, 1e-5));
  }
}

TEST(CpuNorm, LayersBeforeProductsUseItInMixedPrecisionAlone) {
  const NormCase of = MakeNormCase({3, 8}, at::kBFloat16, true, true);
  LayerNormLayer norm(torch::nn::LayerNormOptions({8}));
  EXPECT_EQ(NormForProducts(norm, of.x).scalar_type(), at::kFloat);
  EXPECT_EQ(AddNorm(norm, of.x, of.branch).y.scalar_type(), at::kFloat);
  const AutocastScope autocast(Precision::kAmpBf16, at::kCPU);
  const at::Tensor wide = norm.forward(of.x);
  EXPECT_EQ(wide.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(NormForProducts(norm, of.x).to(at::kFloat), wide, 1.0 / 256, 1e-6));
  EXPECT_EQ(AddNorm(norm, of.x, of.branch).y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(NormOfSum(norm, of.x, of.branch).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace composer
