// Tests batch norm of a CPU with a sum and ReLU behind it, beside LibTorch's operators in double.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <vector>

#include "trainer/layers/norm_activation.h"
#include "trainer/layers/torch_layers.h"

namespace composer {
namespace {

struct BatchNormCase {
  at::Tensor x, shortcut, dy, weight, bias;  // shortcut: undefined for none
  bool relu;
};

BatchNormCase MakeBatchNormCase(at::IntArrayRef shape, at::ScalarType type, at::MemoryFormat format, bool sum,
                                bool relu) {
  torch::manual_seed(5);
  const auto random = [&] { return torch::randn(shape).to(type).contiguous(format); };
  BatchNormCase made{random() * 2 + 0.5, {}, random(), torch::randn({shape[1]}), torch::randn({shape[1]}), relu};
  if (sum) made.shortcut = random();
  return made;
}

// y, the running statistics, and the gradients of x, weight, bias and the shortcut, if there is one.
std::vector<at::Tensor> ComputeBatchNorm(const BatchNormCase& of, bool ours) {
  const auto leaf = [&](const at::Tensor& from) {
    const at::Tensor made = ours ? from.detach().clone() : from.detach().to(at::kDouble);
    return made.requires_grad_();
  };
  const at::Tensor x = leaf(of.x), weight = leaf(of.weight), bias = leaf(of.bias);
  const at::Tensor mean = torch::full_like(weight, 0.25).detach(), variance = torch::full_like(weight, 2).detach();
  const at::Tensor shortcut = of.shortcut.defined() ? leaf(of.shortcut) : at::Tensor();
  at::Tensor y;
  if (ours) {
    const kernels::BatchNormOf norm{weight, bias, mean, variance, 0.1, 1e-5, /*training=*/true};
    EXPECT_TRUE(kernels::TakesCpuBatchNorm(x, shortcut, norm));
    y = kernels::CpuBatchNorm(x, shortcut, norm, of.relu);
    EXPECT_EQ(y.strides(), x.strides());
  } else {
    y = at::batch_norm(x, weight, bias, mean, variance, /*training=*/true, 0.1, 1e-5, /*cudnn_enabled=*/false);
    if (shortcut.defined()) y = y + shortcut;
    if (of.relu) y = y.relu();
  }
  std::vector<at::Tensor> leaves = {x, weight, bias};
  if (shortcut.defined()) leaves.push_back(shortcut);
  std::vector<at::Tensor> all = torch::autograd::grad({y}, leaves, {of.dy.to(y.scalar_type())});
  all.insert(all.begin(), {y.detach(), mean, variance});
  return all;
}

void ExpectLibTorchs(const BatchNormCase& of) {
  const std::vector<at::Tensor> got = ComputeBatchNorm(of, true), expected = ComputeBatchNorm(of, false);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double relative = got[i].scalar_type() == at::kBFloat16 ? 1.0 / 256 : 2e-5;
    const double size = expected[i].abs().max().item<double>();
    EXPECT_TRUE(at::allclose(got[i].to(at::kDouble), expected[i], relative, relative * size))
        << i << ": " << (got[i].to(at::kDouble) - expected[i]).abs().max() << " of " << size;
  }
}

TEST(CpuBatchNorm, IsLibTorchsForEveryShapeTypeAndLayout) {
  const std::vector<std::vector<int64_t>> shapes = {{32, 16, 14, 14}, {7, 33, 7, 7}, {9, 20, 4, 5}, {5, 3, 2, 3},
                                                    {6, 17, 1, 1},    {1, 5, 3, 6},  {150, 8, 2, 1}};
  for (const std::vector<int64_t>& shape : shapes) {
    for (const at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        for (const int kind : {0, 1, 2, 3}) {
          SCOPED_TRACE(testing::Message() << at::IntArrayRef(shape) << ' ' << format << ' ' << type << ' ' << kind);
          // ReLU's gradient jumps at 0, where bfloat16's rounding of y and double's may disagree.
          if (type == at::kBFloat16 && kind >= 2) continue;
          ExpectLibTorchs(MakeBatchNormCase(shape, type, format, /*sum=*/kind % 2 == 1, /*relu=*/kind >= 2));
        }
      }
    }
  }
}

TEST(CpuBatchNorm, ReluOfBfloat16LetsPassWhatIsPositive) {
  BatchNormCase of =
      MakeBatchNormCase({8, 16, 4, 4}, at::kBFloat16, at::MemoryFormat::Contiguous, /*sum=*/true, /*relu=*/true);
  const std::vector<at::Tensor> with = ComputeBatchNorm(of, true);
  of.relu = false;
  const std::vector<at::Tensor> without = ComputeBatchNorm(of, true);
  EXPECT_TRUE(with[0].equal(without[0].relu()));
  EXPECT_TRUE(with[6].equal(at::where(with[0] > 0, of.dy, at::zeros({}, of.dy.options()))));
}

TEST(CpuBatchNorm, KeepsNaN) {
  BatchNormCase of =
      MakeBatchNormCase({4, 3, 5, 5}, at::kFloat, at::MemoryFormat::Contiguous, /*sum=*/true, /*relu=*/true);
  of.shortcut[1][2][3][4] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor y = ComputeBatchNorm(of, true)[0];
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 1);
  EXPECT_TRUE(y[1][2][3][4].isnan().item<bool>());
}

TEST(CpuBatchNorm, TakesOtherLayouts) {
  BatchNormCase of =
      MakeBatchNormCase({6, 8, 5, 5}, at::kFloat, at::MemoryFormat::Contiguous, /*sum=*/true, /*relu=*/true);
  of.shortcut = of.shortcut.contiguous(at::MemoryFormat::ChannelsLast);
  of.dy = torch::ones({1}).expand({6, 8, 5, 5});
  ExpectLibTorchs(of);
}

TEST(CpuBatchNorm, IsTheSameForEveryNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const BatchNormCase of = MakeBatchNormCase({40, 24, 20, 20}, at::kFloat, format, /*sum=*/true, /*relu=*/true);
    at::set_num_threads(1);
    const std::vector<at::Tensor> one = ComputeBatchNorm(of, true);
    for (const int threads : {2, 3}) {
      at::set_num_threads(threads);
      const std::vector<at::Tensor> more = ComputeBatchNorm(of, true);
      for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(more[i].equal(one[i])) << i;
    }
  }
  at::set_num_threads(before);
}

TEST(CpuBatchNorm, ItsGradientHasOne) {
  const BatchNormCase of =
      MakeBatchNormCase({4, 3, 3, 3}, at::kFloat, at::MemoryFormat::Contiguous, /*sum=*/true, /*relu=*/true);
  const auto second = [&](bool ours) {
    const at::Tensor x = of.x.detach().clone().requires_grad_(), weight = of.weight.clone().requires_grad_();
    const at::Tensor mean = torch::zeros({3}), variance = torch::ones({3});
    const at::Tensor y =
        ours ? kernels::CpuBatchNorm(x, of.shortcut, {weight, of.bias, mean, variance, 0.1, 1e-5, true}, true)
             : (at::batch_norm(x, weight, of.bias, mean, variance, true, 0.1, 1e-5, false) + of.shortcut).relu();
    const at::Tensor first = torch::autograd::grad({y}, {x}, {of.dy}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {weight})[0];
  };
  EXPECT_TRUE(at::allclose(second(true), second(false), 1e-3, 1e-4));
}

// A network's use of it: layers as they are beside the two of them in one kernel.
class NormActivationTest : public testing::Test {
 protected:
  NormActivationTest() {
    const torch::NoGradGuard no_grad;
    norm_->weight.uniform_(0.5, 1.5);
    norm_->bias.normal_();
  }
  at::Tensor Apart(const at::Tensor& x) { return relu_.forward(other_->forward(x) + shortcut_); }
  at::Tensor Together(const at::Tensor& x) {
    return NormSumActivation(*norm_, sum_, relu_, [&] { return x; }, [&] { return shortcut_; });
  }
  const std::shared_ptr<BatchNorm2dLayer> norm_ = std::make_shared<BatchNorm2dLayer>(torch::nn::BatchNormOptions(16)),
                                          other_ = std::make_shared<BatchNorm2dLayer>(torch::nn::BatchNormOptions(16));
  AddResidual sum_{"Test"};
  ReluLayer relu_;
  const at::Tensor x_ = torch::randn({6, 16, 5, 5}), shortcut_ = torch::randn({6, 16, 5, 5});
};

TEST_F(NormActivationTest, GivesWhatTheLayersGiveInTrainingAndEvaluation) {
  other_->weight.detach().copy_(norm_->weight);
  other_->bias.detach().copy_(norm_->bias);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = x_ + step, y = Together(x);
    EXPECT_EQ(y.grad_fn()->name().find("Relu"), std::string::npos);
    EXPECT_TRUE(at::allclose(y, Apart(x), 1e-5, 1e-5));
  }
  for (const char* name : {"running_mean", "running_var", "num_batches_tracked"})
    EXPECT_TRUE(at::allclose(norm_->named_buffers()[name], other_->named_buffers()[name], 1e-5, 1e-5)) << name;
  norm_->eval();
  other_->eval();
  const at::Tensor with_gradient = Together(x_);  // by the layers
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(at::allclose(Together(x_), Apart(x_), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(with_gradient, Apart(x_), 1e-5, 1e-5));
  EXPECT_EQ(norm_->num_batches_tracked.item<int64_t>(), 3);
}

TEST_F(NormActivationTest, LeavesToTheLayersWhatHasNoKernel) {
  BatchNorm2dLayer plain(torch::nn::BatchNormOptions(16).affine(false)),
      average(torch::nn::BatchNormOptions(16).momentum(std::nullopt)),
      alone(torch::nn::BatchNormOptions(16).track_running_stats(false));
  const auto by_layers = [&](Layer& norm, Layer& activation, const at::Tensor& x) {
    const std::string last = NormActivation(norm, activation, x).grad_fn()->name();
    return last.find("Relu") != std::string::npos || last.find("Gelu") != std::string::npos;
  };
  GeluLayer gelu;
  const at::Tensor x = x_.clone().requires_grad_();
  EXPECT_FALSE(by_layers(*norm_, relu_, x));
  for (BatchNorm2dLayer* const norm : {&plain, &average, &alone}) EXPECT_TRUE(by_layers(*norm, relu_, x));
  EXPECT_TRUE(by_layers(*norm_, gelu, x));
  norm_->to(at::kDouble);
  EXPECT_TRUE(by_layers(*norm_, relu_, x.to(at::kDouble)));
}

TEST_F(NormActivationTest, ObserversOfOutputsSeeEachLayer) {
  std::vector<std::string> seen;
  static thread_local std::vector<std::string>* names = nullptr;
  names = &seen;
  const at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& record) -> std::unique_ptr<at::ObserverContext> {
        names->emplace_back(record.name());
        return nullptr;
      }).needsOutputs(true));
  Together(x_);
  at::removeCallback(handle);
  EXPECT_NE(std::find(seen.begin(), seen.end(), "aten::batch_norm"), seen.end());
}

}  // namespace
}  // namespace composer
