// Tests the cross-entropy of a CPU in mixed precision beside LibTorch's in double and in float32.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "trainer/layers/fused_layers.h"
#include "trainer/loop/autocast.h"

namespace composer {
namespace {

constexpr int64_t kIgnored = -100;

struct LogitCase {
  at::Tensor logits, targets, dloss;
};

LogitCase MakeLogits(int64_t rows, int64_t classes, at::ScalarType type) {
  torch::manual_seed(rows + classes);
  LogitCase made{(3 * torch::randn({rows, classes})).to(type), torch::randint(classes, {rows}, at::kLong),
                 torch::randn({rows})};
  made.targets[rows / 2] = kIgnored;
  made.targets[0] = classes - 1;
  return made;
}

at::Tensor LogitGradient(const LogitCase& of, bool ours) {
  const at::Tensor leaf = of.logits.detach().clone().requires_grad_();
  const at::Tensor loss =
      ours ? kernels::CpuCrossEntropy(leaf, of.targets, kIgnored)
           : at::cross_entropy_loss(leaf.to(at::kDouble), of.targets, {}, at::Reduction::None, kIgnored);
  loss.backward(of.dloss.to(loss.scalar_type()));
  return leaf.grad();
}

TEST(CpuCrossEntropy, IsLibTorchsForEveryWidth) {
  for (const int64_t classes : {1, 2, 15, 16, 17, 31, 256, 1000}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << classes << ' ' << c10::toString(type));
      const LogitCase of = MakeLogits(9, classes, type);
      const at::Tensor expected =
          at::cross_entropy_loss(of.logits.to(at::kDouble), of.targets, {}, at::Reduction::None, kIgnored);
      const at::Tensor got = kernels::CpuCrossEntropy(of.logits, of.targets, kIgnored);
      ASSERT_EQ(got.scalar_type(), at::kFloat);
      EXPECT_TRUE(at::allclose(got.to(at::kDouble), expected, 1e-6, 2e-6));
      EXPECT_EQ(got[4].item<float>(), 0);
      const at::Tensor gradient = LogitGradient(of, true);
      ASSERT_EQ(gradient.scalar_type(), type);
      // In bfloat16 both round the same number, once.
      const double relative = type == at::kFloat ? 1e-5 : 1.0 / 128;
      EXPECT_TRUE(at::allclose(gradient.to(at::kDouble), LogitGradient(of, false).to(at::kDouble), relative, 1e-6));
      EXPECT_TRUE(gradient[4].eq(0).all().item<bool>());
    }
  }
}

TEST(CpuCrossEntropy, LargeLogitsAndThoseThatAreNoNumbers) {
  const at::Tensor targets = torch::tensor({0, 1, 0, 2, 1}, at::kLong);
  const at::Tensor logits = torch::tensor({{30000.0F, -30000.0F, 1.0F},
                                           {-1e30F, 1e30F, -INFINITY},
                                           {-30000.0F, 30000.0F, 0.0F},
                                           {1.0F, NAN, 2.0F},
                                           {1.0F, INFINITY, 2.0F}});
  const at::Tensor expected = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, kIgnored);
  EXPECT_TRUE(
      at::allclose(kernels::CpuCrossEntropy(logits, targets, kIgnored), expected, 1e-6, 1e-6, /*equal_nan=*/true));
}

TEST(CpuCrossEntropy, IsTheSameForEveryNumberOfThreads) {
  const LogitCase of = MakeLogits(70, 2049, at::kBFloat16);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor loss = kernels::CpuCrossEntropy(of.logits, of.targets, kIgnored), gradient = LogitGradient(of, true);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(kernels::CpuCrossEntropy(of.logits, of.targets, kIgnored).equal(loss));
    EXPECT_TRUE(LogitGradient(of, true).equal(gradient));
  }
  at::set_num_threads(before);
}

TEST(CpuCrossEntropy, RefusesTargetsThatAreNoClasses) {
  const LogitCase of = MakeLogits(3, 5, at::kFloat);
  for (const int64_t wrong : {-1, 5}) {
    of.targets[2] = wrong;
    EXPECT_THROW(kernels::CpuCrossEntropy(of.logits, of.targets, kIgnored), c10::IndexError);
  }
}

TEST(CpuCrossEntropy, ItsGradientHasOne) {
  const LogitCase of = MakeLogits(4, 5, at::kFloat);
  const auto second = [&](bool ours) {
    const at::Tensor leaf = of.logits.detach().clone().requires_grad_();
    const at::Tensor losses = ours ? kernels::CpuCrossEntropy(leaf, of.targets, kIgnored)
                                   : at::cross_entropy_loss(leaf, of.targets, {}, at::Reduction::None, kIgnored);
    const at::Tensor first = torch::autograd::grad({losses}, {leaf}, {of.dloss}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {leaf})[0];
  };
  EXPECT_TRUE(at::allclose(second(true), second(false), 1e-4, 1e-6));
}

TEST(CpuCrossEntropy, MixedPrecisionAloneUsesIt) {
  const LogitCase of = MakeLogits(6, 40, at::kBFloat16);
  const at::Tensor expected =
      at::cross_entropy_loss(of.logits.to(at::kDouble), of.targets, {}, at::Reduction::Mean, kIgnored);
  EXPECT_FALSE(kernels::TakesCpuCrossEntropy(of.logits, of.targets));
  const AutocastScope autocast(Precision::kAmpBf16, at::kCPU);
  EXPECT_TRUE(kernels::TakesCpuCrossEntropy(of.logits, of.targets));
  EXPECT_FALSE(kernels::TakesCpuCrossEntropy(of.logits, of.targets.to(at::kInt)));
  EXPECT_TRUE(CrossEntropyOfRows(of.logits, of.targets, kIgnored)
                  .equal(kernels::CpuCrossEntropy(of.logits, of.targets, kIgnored)));
  EXPECT_NEAR(MeanCrossEntropy(of.logits, of.targets, kIgnored).item<double>(), expected.item<double>(), 1e-5);
  EXPECT_TRUE(MeanCrossEntropy(of.logits, torch::full({6}, kIgnored, at::kLong), kIgnored).isnan().item<bool>());
}

}  // namespace
}  // namespace composer
