// Each operator with its gradient, by the reference and by the kernels, against LibTorch's own operators and autograd.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/fused.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <optional>

#include "tests/trainer/kernels/host_kernels.h"
#include "trainer/kernels/operators.h"

namespace composer::kernels {
namespace {

using Tensors = std::vector<at::Tensor>;

// What a function of some inputs returns, and the gradients of the inputs that need one, given those of the results.
struct Computed {
  Tensors results, gradients;
};
template <typename Fn>
Computed Compute(const Tensors& inputs, const Tensors& result_gradients, const Fn& fn) {
  Tensors leaves, wanted;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().clone().requires_grad_(input.is_floating_point()));
    if (input.is_floating_point()) wanted.push_back(leaves.back());
  }
  Computed computed;
  Tensors used;
  for (const at::Tensor& result : fn(leaves)) computed.results.push_back(result);
  for (size_t i = 0; i < computed.results.size(); ++i)
    used.push_back(result_gradients[i].to(computed.results[i].scalar_type()));
  torch::autograd::backward(computed.results, used);
  for (const at::Tensor& leaf : wanted) computed.gradients.push_back(leaf.grad());
  return computed;
}

void ExpectClose(const Computed& ours, const Computed& theirs, double tolerance) {
  const auto compare = [&](const Tensors& a, const Tensors& b, const char* what) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].defined(), b[i].defined()) << what << i;
      if (!a[i].defined()) continue;
      ASSERT_EQ(a[i].sizes(), b[i].sizes()) << what << i;
      EXPECT_TRUE(at::allclose(a[i].to(at::kDouble), b[i].to(at::kDouble), tolerance, tolerance))
          << what << i << ": " << (a[i].to(at::kDouble) - b[i].to(at::kDouble)).abs().max().item<double>();
    }
  };
  compare(ours.results, theirs.results, "result ");
  compare(ours.gradients, theirs.gradients, "gradient ");
}

// Whether the kernels' source computes, or the reference.
class Fused : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    if (GetParam()) kernels_.emplace();
  }
  void TearDown() override {
    if (kernels_) {
      EXPECT_GT(kernels_->TakeBlocks(), 0) << "no kernel ran";
    }
  }
  std::optional<HostKernels> kernels_;
};
INSTANTIATE_TEST_SUITE_P(By, Fused, testing::Bool(), [](const auto& by) { return by.param ? "Kernels" : "Reference"; });

at::Tensor Draw(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) { return at::randn(sizes).to(type); }

double Tolerance(at::ScalarType type) { return type == at::kFloat ? 2e-5 : 3e-2; }

TEST_P(Fused, LayerNormAddsABranch) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensors inputs = {Draw({2, 3, 40}, type), Draw({2, 3, 40}, type), Draw({40}, type), Draw({40}, type)};
    const Tensors gradients = {Draw({2, 3, 40}), Draw({2, 3, 40})};
    const Computed ours = Compute(inputs, gradients, [](const Tensors& in) {
      const SumAndNorm both = AddNorm(in[0], in[1], {in[2], in[3], 1e-5, /*centred=*/true});
      return Tensors{both.y, both.sum};
    });
    const Computed theirs = Compute(inputs, gradients, [](const Tensors& in) {
      const at::Tensor sum = in[0] + in[1];
      return Tensors{at::layer_norm(sum, {40}, in[2], in[3], 1e-5), sum};
    });
    ExpectClose(ours, theirs, Tolerance(type));
  }
}

// As under autocast: the sum stays in float32, the branch and what follows are in bfloat16.
TEST_P(Fused, NormOfAWideSumAndANarrowBranch) {
  const Tensors inputs = {Draw({5, 33}), Draw({5, 33}, at::kBFloat16), Draw({33})};
  const Tensors gradients = {Draw({5, 33}), Draw({5, 33})};
  const Computed ours = Compute(inputs, gradients, [](const Tensors& in) {
    const SumAndNorm both = AddNorm(in[0], in[1], {in[2], {}, 1e-5, /*centred=*/true});
    EXPECT_EQ(both.y.scalar_type(), at::kBFloat16);
    EXPECT_EQ(both.sum.scalar_type(), at::kFloat);
    return Tensors{both.y, both.sum};
  });
  const Computed theirs = Compute(inputs, gradients, [](const Tensors& in) {
    const at::Tensor sum = in[0] + in[1];
    return Tensors{at::layer_norm(sum, {33}, in[2], {}, 1e-5).to(at::kBFloat16), sum};
  });
  ExpectClose(ours, theirs, 3e-2);
}

TEST_P(Fused, RmsNormWithoutABranch) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensors inputs = {Draw({4, 24}, type), Draw({24}, type)};
    const Tensors gradients = {Draw({4, 24})};
    const Computed ours = Compute(inputs, gradients, [](const Tensors& in) {
      return Tensors{AddNorm(in[0], {}, {in[1], {}, 1e-6, /*centred=*/false}).y};
    });
    const Computed theirs = Compute(inputs, gradients, [](const Tensors& in) {
      const at::Tensor wide = in[0].to(at::kFloat);
      const at::Tensor scaled = wide * at::rsqrt(wide.square().mean(-1, true) + 1e-6);
      return Tensors{in[1] * scaled.to(in[0].scalar_type())};
    });
    ExpectClose(ours, theirs, Tolerance(type));
  }
}

// The weights of a flat buffer's views, and rows of a transposed tensor: they are copied first.
TEST_P(Fused, NormOfTensorsThatLieAnyhow) {
  const at::Tensor flat = Draw({100});
  const Tensors inputs = {Draw({16, 6})};
  const at::Tensor weight = flat.narrow(0, 3, 16), bias = flat.narrow(0, 21, 16), gradient = Draw({6, 16});
  const Computed ours = Compute(inputs, {gradient}, [&](const Tensors& in) {
    return Tensors{AddNorm(in[0].t(), {}, {weight, bias, 1e-5, true}).y};
  });
  const Computed theirs = Compute(inputs, {gradient}, [&](const Tensors& in) {
    return Tensors{at::layer_norm(in[0].t(), {16}, weight, bias, 1e-5)};
  });
  ExpectClose(ours, theirs, 2e-5);
}

TEST_P(Fused, BiasGelu) {
  for (const bool by_tanh : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Tensors inputs = {Draw({3, 5, 17}, type), Draw({17}, type)};
      const Tensors gradients = {Draw({3, 5, 17})};
      const Computed ours = Compute(
          inputs, gradients, [&](const Tensors& in) { return Tensors{BiasGeluWithGradient(in[0], in[1], by_tanh)}; });
      const Computed theirs = Compute(inputs, gradients, [&](const Tensors& in) {
        return Tensors{at::gelu(in[0] + in[1], by_tanh ? "tanh" : "none")};
      });
      ExpectClose(ours, theirs, type == at::kFloat ? 2e-5 : 5e-2);
    }
  }
}

TEST_P(Fused, SwiGlu) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensors inputs = {Draw({7, 13}, type), Draw({7, 13}, type)};
    const Tensors gradients = {Draw({7, 13})};
    const Computed ours =
        Compute(inputs, gradients, [](const Tensors& in) { return Tensors{SwiGluWithGradient(in[0], in[1])}; });
    const Computed theirs =
        Compute(inputs, gradients, [](const Tensors& in) { return Tensors{at::silu(in[0]) * in[1]}; });
    ExpectClose(ours, theirs, Tolerance(type));
  }
}

// Queries as attention has them, a view of [B, T, H, D].
TEST_P(Fused, Rotation) {
  for (const int64_t places : {1, 2}) {
    const at::Tensor cos = Draw({places, 1, 4, 16}), sin = Draw({places, 1, 4, 16});
    const Tensors inputs = {Draw({2, 4, 3, 16})};
    const Tensors gradients = {Draw({2, 3, 4, 16})};
    const Computed ours = Compute(inputs, gradients, [&](const Tensors& in) {
      return Tensors{RotateWithGradient(in[0].transpose(1, 2), cos, sin)};
    });
    const Computed theirs = Compute(inputs, gradients, [&](const Tensors& in) {
      const at::Tensor x = in[0].transpose(1, 2);
      const Tensors halves = x.chunk(2, -1);
      return Tensors{x * cos + at::cat({-halves[1], halves[0]}, -1) * sin};
    });
    ExpectClose(ours, theirs, 2e-5);
  }
}

TEST_P(Fused, CrossEntropyOfEachRow) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor weight = Draw({31, 8}, type), targets = torch::tensor({3, 30, -100, 0, 7}, at::kLong);
    const Tensors inputs = {Draw({5, 8}, type)};
    const Tensors gradients = {Draw({5})};
    const Computed ours = Compute(inputs, gradients, [&](const Tensors& in) {
      return Tensors{CrossEntropyWithGradient(at::linear(in[0], weight), targets, -100)};
    });
    const Computed theirs = Compute(inputs, gradients, [&](const Tensors& in) {
      return Tensors{
          at::cross_entropy_loss(at::linear(in[0], weight).to(at::kFloat), targets, {}, at::Reduction::None, -100)};
    });
    ExpectClose(ours, theirs, Tolerance(type));
  }
}

// Backward writes over the logits: whoever has kept them is told.
TEST_P(Fused, CrossEntropyRefusesLogitsThatOthersHaveKept) {
  const at::Tensor x = Draw({2, 4}).requires_grad_(true), targets = torch::tensor({1, 2}, at::kLong);
  const at::Tensor logits = at::exp(x);  // which keeps its result
  const at::Tensor loss = CrossEntropyWithGradient(logits, targets, -100);
  try {
    loss.sum().backward();
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), testing::HasSubstr("modified by an inplace operation"));
  }
}

TEST_P(Fused, NoGradientOfAGradient) {
  const at::Tensor gate = Draw({4}).requires_grad_(true), up = Draw({4}).requires_grad_(true);
  const at::Tensor y = SwiGluWithGradient(gate, up).sum();
  try {
    y.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), testing::HasSubstr("give kernels: off"));
  }
}

TEST_P(Fused, AdamWWithCopies) {
  const auto steps = [&](bool ours) {
    torch::manual_seed(5);
    Tensors params = {Draw({7, 9}), Draw({5})}, grads = {Draw({7, 9}), Draw({5})}, first, second, counts, copies;
    for (const at::Tensor& param : params) {
      first.push_back(at::zeros_like(param));
      second.push_back(at::zeros_like(param));
      counts.push_back(at::zeros({}));
      copies.push_back(at::empty_like(param, at::kBFloat16));
    }
    for (int step = 0; step < 3; ++step) {
      for (at::Tensor& count : counts) count.add_(1);
      if (ours) {
        AdamW(params, grads, first, second, counts, {0.01, 0.9, 0.95, 0.1, 1e-8}, std::nullopt, copies);
      } else {
        at::_fused_adamw_(params, grads, first, second, {}, counts, 0.01, 0.9, 0.95, 0.1, 1e-8, false, false);
        for (size_t i = 0; i < copies.size(); ++i) copies[i].copy_(params[i]);
      }
    }
    return std::pair(params, copies);
  };
  const auto [params, copies] = steps(true);
  const auto [their_params, their_copies] = steps(false);
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(at::allclose(params[i], their_params[i], 1e-5, 1e-6));
    EXPECT_TRUE(at::equal(copies[i], params[i].to(at::kBFloat16)));
  }
}

TEST(WhyNoNorm, NamesTypesAndWidths) {
  const struct {
    at::ScalarType wide, narrow;
    int64_t width;
    const char* reason;
  } rows[] = {
      {at::kFloat, at::kFloat, 1, ""},
      {at::kFloat, at::kBFloat16, 4096, ""},
      {at::kBFloat16, at::kBFloat16, 8192, ""},
      {at::kFloat, at::kFloat, 4095, ""},
      {at::kFloat, at::kFloat, 4097, "width of 4097"},
      {at::kFloat, at::kFloat, 8200, "width of 8200"},
      {at::kHalf, at::kHalf, 64, "Half with Half"},
      {at::kBFloat16, at::kFloat, 64, "BFloat16 with Float"},
      {at::kDouble, at::kDouble, 64, "Double with Double"},
  };
  for (const auto& row : rows) {
    const std::string why = WhyNoNorm(row.wide, row.narrow, row.width);
    EXPECT_EQ(why.empty(), std::string(row.reason).empty()) << why;
    EXPECT_THAT(why, testing::HasSubstr(row.reason));
  }
}

}  // namespace
}  // namespace composer::kernels
