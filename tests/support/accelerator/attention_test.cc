// Tests that attention on a GPU calls the operators that attention_backend names, forward and backward, with the values
// of products of matrices, and that LibTorch has its settings back afterwards.
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/attention.h"

#include <ATen/autocast_mode.h>

#include "tests/support/accelerator/fixture.h"
#include "trainer/layers/attention_backend.h"
#include "trainer/layers/attention_core.h"

namespace composer::mock {
namespace {

using enum AttentionBackend;
using Tensors = std::vector<at::Tensor>;

std::vector<int> TorchsSettings() {
  const at::Context& torch = at::globalContext();
  std::vector<int> settings = {torch.userEnabledCuDNNSDP(), torch.userEnabledFlashSDP(),
                               torch.userEnabledMemEfficientSDP(), torch.userEnabledMathSDP()};
  for (const at::SDPBackend kernel : at::globalContext().sDPPriorityOrder())
    settings.push_back(static_cast<int>(kernel));
  return settings;
}

class MockAttention : public OnMock {
 protected:
  void SetUp() override {
    OnMock::SetUp();
    torch::manual_seed(5);
    TakeAttentionCalls();
  }
  void TearDown() override {
    EXPECT_EQ(TorchsSettings(), before_);
    OnMock::TearDown();
  }
  const std::vector<int> before_ = TorchsSettings();
};

std::unique_ptr<AttentionHold> Hold(AttentionBackend backend) {
  absl::StatusOr<std::unique_ptr<AttentionHold>> hold = AttentionHold::Take(backend, /*tells=*/false);
  EXPECT_TRUE(hold.ok()) << hold.status();
  return *std::move(hold);
}

struct Case {
  const char* name;
  at::ScalarType type = at::kBFloat16;
  int64_t keys = 16, width = 8;
  bool has_mask = false;
  double dropout = 0;
  bool has_backward = true;
};

at::Tensor MaskOf(const Case& c) {
  at::Tensor mask = at::rand({2, 1, c.keys, c.keys}, kDevice) < 0.7;
  mask.diagonal(0, 2, 3).fill_(true);  // each query sees a key
  return mask;
}

// Returns y and, with a backward pass, the gradients of q, k and v.
Tensors Attention(const Case& c) {
  torch::manual_seed(7);
  const auto draw = [&] {
    at::Tensor x = at::randn({2, 3, c.keys, c.width}).to(kDevice).to(c.type);
    return x.requires_grad_(c.has_backward);
  };
  const at::Tensor q = draw(), k = draw(), v = draw();
  const std::optional<at::Tensor> mask = c.has_mask ? std::optional(MaskOf(c)) : std::nullopt;
  DotProductAttention core(c.dropout);
  at::Tensor y = core.forward(q, k, v, mask, /*is_causal=*/!c.has_mask);
  if (!c.has_backward) return {y.cpu()};
  const at::Tensor dy = at::randn(y.sizes()).to(kDevice).to(y.scalar_type());
  y.backward(dy);
  return {y.detach().cpu(), q.grad().cpu(), k.grad().cpu(), v.grad().cpu()};
}

TEST_F(MockAttention, EachKernelGetsWhatItTakes) {
  const AttentionCalls cudnn{.cudnn = 1, .cudnn_backward = 1}, efficient{.efficient = 1, .efficient_backward = 1}, none;
  const struct {
    Case inputs;
    AttentionCalls calls;
  } rows[] = {
      {{"bfloat16"}, cudnn},
      {{"float16", at::kHalf}, cudnn},
      {{"float32", at::kFloat}, none},
      {{"narrow heads", at::kBFloat16, 16, 12}, none},
      {{"dropout in sixteenths", at::kBFloat16, 16, 8, false, 0.5}, cudnn},
      {{"other dropout", at::kBFloat16, 16, 8, false, 0.1}, none},
      {{"mask", at::kBFloat16, 16, 8, true}, cudnn},
      {{"64 keys, causal", at::kBFloat16, 64, 8}, cudnn},
      {{"64 keys with a mask: may be NaN in cuDNN", at::kBFloat16, 64, 8, true}, efficient},
      {{"192 keys with a mask and dropout", at::kHalf, 192, 8, true, 0.25}, efficient},
      {{"128 keys with a mask", at::kBFloat16, 128, 8, true}, cudnn},
      {{"64 keys with a mask, no backward pass", at::kBFloat16, 64, 8, true, 0, false}, {.cudnn = 1}},
      {{"64 keys with a mask, float32", at::kFloat, 64, 8, true}, none},
  };
  for (const auto& [inputs, calls] : rows) {
    SCOPED_TRACE(inputs.name);
    const std::unique_ptr<AttentionHold> hold = Hold(kCudnn);
    const Tensors got = Attention(inputs);
    const AttentionCalls made = TakeAttentionCalls();
    EXPECT_EQ(made, calls) << made.cudnn << made.cudnn_backward << made.efficient << made.efficient_backward;
    for (const at::Tensor& x : got) EXPECT_TRUE(x.isfinite().all().item<bool>());
  }
}

// Both compute in float32; what differs is the order, and that backward has a y that is rounded to 16 bits.
TEST_F(MockAttention, HasTheValuesOfProductsOfMatrices) {
  for (const Case& inputs : {Case{"causal"}, Case{"mask", at::kBFloat16, 16, 8, true}, Case{"half", at::kHalf},
                             Case{"efficient", at::kBFloat16, 64, 8, true}}) {
    SCOPED_TRACE(inputs.name);
    std::unique_ptr<AttentionHold> hold = Hold(kMath);
    const Tensors products = Attention(inputs);
    EXPECT_EQ(TakeAttentionCalls(), AttentionCalls());
    hold.reset();
    hold = Hold(kCudnn);
    const Tensors got = Attention(inputs);
    EXPECT_NE(TakeAttentionCalls(), AttentionCalls());
    for (size_t i = 0; i < got.size(); ++i) {
      const at::Tensor wanted = products[i].to(at::kDouble), difference = got[i].to(at::kDouble) - wanted;
      EXPECT_LT(difference.abs().max().item<double>(), 0.02 * wanted.abs().max().item<double>()) << i;
      EXPECT_LT(difference.norm().item<double>(), 0.005 * wanted.norm().item<double>()) << i;
    }
  }
}

// y is linear in v whatever is dropped, so that <y, dy> = <v, dv> if backward drops what forward did.
TEST_F(MockAttention, BackwardDropsWhatForwardDropped) {
  const std::unique_ptr<AttentionHold> hold = Hold(kCudnn);
  const at::Tensor q = at::randn({1, 1, 16, 8}).to(kDevice).to(at::kHalf).requires_grad_();
  const at::Tensor v = at::randn({1, 1, 16, 8}).to(kDevice).to(at::kHalf).requires_grad_();
  DotProductAttention core(0.5);
  const at::Tensor y = core.forward(q, q, v, std::nullopt, true), dy = at::randn_like(y);
  y.backward(dy);
  EXPECT_NEAR((y * dy).sum(at::kFloat).item<double>(), (v * v.grad()).sum(at::kFloat).item<double>(), 0.1);
  EXPECT_EQ(TakeAttentionCalls(), (AttentionCalls{.cudnn = 1, .cudnn_backward = 1}));
}

TEST_F(MockAttention, AutocastGivesItSixteenBits) {
  const std::unique_ptr<AttentionHold> hold = Hold(kCudnn);
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
  EXPECT_EQ(Attention({"float32", at::kFloat})[1].scalar_type(), at::kFloat);
  EXPECT_EQ(TakeAttentionCalls(), (AttentionCalls{.cudnn = 1, .cudnn_backward = 1}));
  EXPECT_EQ(Attention({"float32", at::kFloat, 64, 8, true})[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(TakeAttentionCalls(), (AttentionCalls{.efficient = 1, .efficient_backward = 1}));
  at::autocast::set_autocast_enabled(at::kCUDA, false);
}

TEST_F(MockAttention, OtherBackendsKeepCudnnOut) {
  for (const AttentionBackend backend : {kFlash, kEfficient, kMath}) {
    const std::unique_ptr<AttentionHold> hold = Hold(backend);
    Attention({"bfloat16"});
    EXPECT_EQ(TakeAttentionCalls(), AttentionCalls()) << AttentionBackendName(backend);
  }
}

TEST_F(MockAttention, AutoIsLibTorchsOrder) {
  const std::unique_ptr<AttentionHold> hold = Hold(kAuto);
  EXPECT_EQ(TorchsSettings(), before_);
  Attention({"bfloat16"});
  EXPECT_EQ(TakeAttentionCalls(), AttentionCalls()) << "the mock has no FlashAttention, and math is before cuDNN";
}

// On GPUs of compute capability 9 LibTorch changes its order when it is first asked. That order must be there after a
// hold, too, even if the hold was the first to ask; and under auto cuDNN does not get what may be NaN.
TEST_F(MockAttention, TheOrderOfANewGpuOutlivesAHold) {
  for (const AttentionBackend first : {kCudnn, kFlash, kMath}) {
    ForgetAttentionOrder(/*prefers_cudnn=*/true);
    Hold(first).reset();
    const std::unique_ptr<AttentionHold> hold = Hold(kAuto);
    Attention({"bfloat16"});
    EXPECT_EQ(TakeAttentionCalls(), (AttentionCalls{.cudnn = 1, .cudnn_backward = 1})) << AttentionBackendName(first);
    Attention({"mask", at::kBFloat16, 64, 8, true});
    EXPECT_EQ(TakeAttentionCalls(), (AttentionCalls{.efficient = 1, .efficient_backward = 1}));
    at::globalContext().setSDPPriorityOrder({before_[4], before_[5], before_[6], before_[7]});
  }
}

TEST_F(MockAttention, HoldsAtTheSameTimeAreOfOneBackend) {
  std::unique_ptr<AttentionHold> one = Hold(kCudnn), other = Hold(kCudnn);
  EXPECT_THAT(AttentionHold::Take(kAuto, false).status().message(),
              testing::HasSubstr("attention_backend: auto, but another trainer of this process has cudnn"));
  one.reset();
  Attention({"bfloat16"});
  EXPECT_EQ(TakeAttentionCalls().cudnn, 1) << "the other hold is still there";
  other.reset();
  EXPECT_EQ(TorchsSettings(), before_);
  EXPECT_NE(Hold(kMath), nullptr);
}

}  // namespace
}  // namespace composer::mock
