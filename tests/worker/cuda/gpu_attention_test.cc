// Attention on a GPU by each of LibTorch's kernels (attention_backend): values and gradients beside products of
// matrices in float32, and the time of GPT-2 124M's shapes, which is printed ("attention: NAME us"). Everything is
// skipped without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <chrono>
#include <cstdio>
#include <optional>

#include "trainer/layers/attention_backend.h"
#include "trainer/layers/attention_core.h"
#include "worker/cuda/cuda_loader.h"

namespace composer {
namespace {

using enum AttentionBackend;

struct Inputs {
  at::Tensor q, k, v, dy;
  std::optional<at::Tensor> mask;
};

class GpuAttention : public testing::Test {
 protected:
  void SetUp() override {
    static const absl::StatusOr<CudaModule*>& cuda = *new absl::StatusOr<CudaModule*>(LoadCuda());
    if (!cuda.ok()) GTEST_SKIP() << cuda.status();
    if ((*cuda)->capability(0) < 80) GTEST_SKIP() << "FlashAttention 2 and cuDNN's kernel need compute capability 8.0";
    torch::manual_seed(7);
  }

  static Inputs Draw(at::IntArrayRef shape, at::ScalarType type, bool has_mask) {
    const auto options = torch::device(at::Device(at::kCUDA, 0)).dtype(type);
    const auto draw = [&] { return at::randn(shape, options).requires_grad_(); };
    Inputs in{draw(), draw(), draw(), at::randn(shape, options), std::nullopt};
    if (!has_mask) return in;
    in.mask = at::rand({shape[0], 1, shape[2], shape[2]}, options.dtype(at::kFloat)) < 0.7;
    in.mask->diagonal(0, 2, 3).fill_(true);  // each query sees a key
    return in;
  }

  // y and the gradients of q, k and v.
  static std::vector<at::Tensor> Compute(AttentionBackend backend, const Inputs& in, double dropout = 0) {
    const auto hold = AttentionHold::Take(backend, /*tells=*/false);
    EXPECT_TRUE(hold.ok()) << hold.status();
    DotProductAttention core(dropout);
    const at::Tensor y = core.forward(in.q, in.k, in.v, in.mask, /*is_causal=*/!in.mask);
    kernel_ = y.grad_fn()->name();
    std::vector<at::Tensor> result = torch::autograd::grad({y}, {in.q, in.k, in.v}, {in.dy});
    result.insert(result.begin(), y.detach());
    return result;
  }

  static inline std::string kernel_;  // autograd's node of the last Compute
};

Inputs InFloat32(const Inputs& in) {
  const auto copy = [](const at::Tensor& x) { return x.detach().to(at::kFloat).requires_grad_(); };
  return {copy(in.q), copy(in.k), copy(in.v), in.dy.to(at::kFloat), in.mask};
}

// Distances are shares of the norm. bfloat16 has 8 bits and float16 11, to which kernels round the weights, too.
TEST_F(GpuAttention, AgreesWithProductsOfMatrices) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const int64_t tokens : {64, 128, 192, 256}) {
      for (const bool has_mask : {false, true}) {
        const Inputs in = Draw({2, 4, tokens, 64}, type, has_mask);
        const std::vector<at::Tensor> wanted = Compute(kMath, InFloat32(in));
        for (const AttentionBackend backend : {kAuto, kCudnn, kFlash, kEfficient, kMath}) {
          const std::vector<at::Tensor> got = Compute(backend, in);
          double worst = 0;
          for (size_t i = 0; i < got.size(); ++i) {
            const at::Tensor difference = got[i].to(at::kFloat) - wanted[i];
            worst = std::max(worst, (difference.norm() / wanted[i].norm()).item<double>());
          }
          EXPECT_LT(worst, type == at::kHalf ? 0.004 : 0.02);
          std::printf("attention: %s, %s, %ld tokens%s: %s, error %.2g\n", AttentionBackendName(backend).data(),
                      c10::toString(type), static_cast<long>(tokens), has_mask ? ", mask" : ", causal", kernel_.c_str(),
                      worst);
        }
      }
    }
  }
}

// All logits are near -120, where cuDNN 9.19 gives NaN: github.com/pytorch/pytorch/issues/196678.
TEST_F(GpuAttention, GradientsOfSmallLogitsAreFinite) {
  for (const int64_t tokens : {64, 192, 704}) {
    Inputs in = Draw({1, 1, tokens, 64}, at::kBFloat16, /*has_mask=*/true);
    {
      const torch::NoGradGuard no_grad;
      in.q.mul_(0.1).select(3, 0).fill_(1);
      in.k.mul_(0.1).select(3, 0).fill_(-120 * 8);
    }
    for (const AttentionBackend backend : {kAuto, kCudnn, kFlash, kEfficient}) {
      for (const at::Tensor& x : Compute(backend, in))
        EXPECT_TRUE(x.isfinite().all().item<bool>()) << AttentionBackendName(backend) << ", " << tokens << " tokens";
    }
  }
}

// y is linear in v whatever is dropped, so that <y, dy> = <v, dv> if backward drops what forward did.
TEST_F(GpuAttention, BackwardDropsWhatForwardDropped) {
  const Inputs in = Draw({2, 4, 128, 64}, at::kHalf, /*has_mask=*/false);
  for (const AttentionBackend backend : {kCudnn, kFlash, kEfficient, kMath}) {
    const std::vector<at::Tensor> result = Compute(backend, in, /*dropout=*/0.25);
    const double forward = (result[0].to(at::kFloat) * in.dy.to(at::kFloat)).sum().item<double>();
    const double backward = (in.v.to(at::kFloat) * result[3].to(at::kFloat)).sum().item<double>();
    const double scale = (result[0].to(at::kFloat).norm() * in.dy.to(at::kFloat).norm()).item<double>();
    EXPECT_LT(std::abs(forward - backward), 1e-3 * scale) << AttentionBackendName(backend);
  }
}

// Batches of 32 and 8 of GPT-2 124M's heads, forward and backward.
TEST_F(GpuAttention, Time) {
  const c10::impl::VirtualGuardImpl device(at::kCUDA);
  for (const int64_t batch : {32, 8}) {
    const Inputs in = Draw({batch, 12, 1024, 64}, at::kBFloat16, /*has_mask=*/false);
    for (const AttentionBackend backend : {kAuto, kCudnn, kFlash, kEfficient}) {
      for (int i = 0; i < 3; ++i) Compute(backend, in);
      device.synchronizeDevice(0);
      const auto begin = std::chrono::steady_clock::now();
      constexpr int kTimes = 20;
      for (int i = 0; i < kTimes; ++i) Compute(backend, in);
      device.synchronizeDevice(0);
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      std::printf("attention: %s (%s), %ld x 12 heads, 1024 tokens, forward and backward: %.0f us\n",
                  AttentionBackendName(backend).data(), kernel_.c_str(), static_cast<long>(batch),
                  took.count() / kTimes);
    }
  }
}

}  // namespace
}  // namespace composer
