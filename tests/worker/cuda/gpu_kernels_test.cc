// Our own kernels on a GPU: each operator beside the reference on the CPU, and the memory that it moves in a second,
// which is printed ("bandwidth: NAME GB/s"). Everything is skipped without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <cstdio>
#include <functional>

#include "trainer/kernels/operators.h"
#include "worker/cuda/cuda_loader.h"
#include "worker/cuda/kernel_choice.h"

namespace composer::kernels {
namespace {

using Tensors = std::vector<at::Tensor>;
using Fn = std::function<Tensors(const Tensors&)>;

class GpuKernels : public testing::Test {
 protected:
  void SetUp() override {
    static const absl::StatusOr<CudaModule*>& cuda = *[] {
      auto* loaded = new absl::StatusOr<CudaModule*>(LoadCuda());
      if (loaded->ok() && ChooseKernels(KernelsKey::kAuto, (**loaded)->capability(0)).use)
        (**loaded)->RegisterKernels();
      return loaded;
    }();
    if (!cuda.ok()) GTEST_SKIP() << cuda.status();
    const KernelChoice choice = ChooseKernels(KernelsKey::kAuto, (*cuda)->capability(0));
    if (!choice.use) GTEST_SKIP() << choice.reason;
    torch::manual_seed(7);
  }
  static at::Tensor OnGpu(const at::Tensor& x) { return x.to(at::Device(at::kCUDA, 0)); }

  // The function of these inputs gives on the GPU what it gives on the CPU.
  static void Try(const char* name, const Tensors& inputs, double tolerance, const Fn& fn) {
    Tensors on_gpu;
    for (const at::Tensor& input : inputs) on_gpu.push_back(OnGpu(input));
    ASSERT_TRUE(HasKernel(on_gpu[0]));
    const Tensors wanted = fn(inputs), got = fn(on_gpu);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i].defined() || wanted[i].numel() == 0) continue;
      const at::Tensor difference = (got[i].to(at::kCPU, at::kDouble) - wanted[i].to(at::kDouble)).abs();
      const double scale = std::max(1.0, wanted[i].to(at::kDouble).abs().max().item<double>());
      EXPECT_LT(difference.max().item<double>(), tolerance * scale) << name << ", result " << i;
    }
  }

  // bytes: what the function must read and write at least.
  static void Measure(const char* name, double bytes, const std::function<void()>& fn) {
    const c10::impl::VirtualGuardImpl device(at::kCUDA);
    for (int i = 0; i < 5; ++i) fn();
    device.synchronizeDevice(0);
    const auto begin = std::chrono::steady_clock::now();
    constexpr int kTimes = 50;
    for (int i = 0; i < kTimes; ++i) fn();
    device.synchronizeDevice(0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("bandwidth: %s %.0f GB/s\n", name, bytes * kTimes / took.count() / 1e9);
  }
};

TEST_F(GpuKernels, AgreeWithTheReferenceOnTheCpu) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double tolerance = type == at::kFloat ? 1e-4 : 2e-2;
    const auto draw = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(type); };
    for (const int64_t width : {33, 768, 4096, 8192}) {
      for (const bool centred : {false, true}) {
        Try("norm", {draw({65, width}), draw({65, width}), draw({width}), draw({width})}, tolerance,
            [&](const Tensors& in) {
              const NormResult r = Norm(in[0], in[1], in[2], in[3], 1e-5, centred, type);
              return Tensors{r.y, r.sum, r.mean, r.rstd};
            });
        Try("norm_backward", {draw({65, width}), draw({65, width}), draw({65, width}), draw({width})}, tolerance * 8,
            [&](const Tensors& in) {
              const NormResult r = Norm(in[2], {}, in[3], in[3], 1e-5, centred, type);
              const NormGradients g = NormBackward(in[0], in[1], in[2], in[3], r.mean, r.rstd, centred, true);
              return Tensors{g.x, g.weight, g.bias};
            });
      }
      Try("bias_gelu", {draw({65, width}), draw({width}), draw({65, width})}, tolerance * 8, [](const Tensors& in) {
        auto [dx, dbias] = BiasGeluBackward(in[2], in[0], in[1], true);
        return Tensors{BiasGelu(in[0], in[1], true), BiasGelu(in[0], in[1], false), dx, dbias};
      });
      Try("swiglu", {draw({65, width}), draw({65, width}), draw({65, width})}, tolerance, [](const Tensors& in) {
        auto [dgate, dup] = SwiGluBackward(in[2], in[0], in[1]);
        return Tensors{SwiGlu(in[0], in[1]), dgate, dup};
      });
      Try("cross_entropy", {draw({17, width}), at::randint(width, {17}, at::kLong), at::randn({17})}, tolerance,
          [](const Tensors& in) {
            auto [loss, lse] = CrossEntropy(in[0], in[1], -100);
            at::Tensor gradient = in[0].clone();
            CrossEntropyBackward(gradient, in[1], lse, in[2], -100);
            return Tensors{loss, lse, gradient};
          });
    }
    Try("rotate", {draw({2, 5, 3, 64}), draw({1, 1, 5, 64}), draw({1, 1, 5, 64})}, tolerance, [](const Tensors& in) {
      const at::Tensor x = in[0].transpose(1, 2);
      return Tensors{Rotate(x, in[1], in[2], false), Rotate(x, in[1], in[2], true)};
    });
  }
}

TEST_F(GpuKernels, AdamWAgreesWithLibTorchOnTheCpu) {
  Try("adamw_", {at::randn({1000, 33}), at::randn({1000, 33}), at::randn({1000, 33}), at::rand({1000, 33})}, 1e-5,
      [](const Tensors& in) {
        at::Tensor param = in[0].clone(), first = in[2].clone(), second = in[3].clone();
        at::Tensor copy = at::empty_like(param, at::kBFloat16);
        const at::Tensor step = at::full({}, 3.0, param.options());
        AdamW({param}, {in[1]}, {first}, {second}, {step}, {0.01, 0.9, 0.95, 0.1, 1e-8}, std::nullopt, {copy});
        return Tensors{param, first, second, copy};
      });
}

TEST_F(GpuKernels, Bandwidth) {
  const auto options = torch::device(at::Device(at::kCUDA, 0)).dtype(at::kBFloat16);
  const int64_t rows = 32768, width = 768;
  const double narrow = 2.0 * rows * width;
  const at::Tensor x = at::randn({rows, width}, options), branch = at::randn({rows, width}, options);
  const at::Tensor weight = at::randn({width}, options), bias = at::randn({width}, options);
  const NormResult norm = Norm(x, branch, weight, bias, 1e-5, true, at::kBFloat16);
  Measure("layer norm + residual", 4 * narrow, [&] { Norm(x, branch, weight, bias, 1e-5, true, at::kBFloat16); });
  Measure("layer norm + residual, backward", 4 * narrow,
          [&] { NormBackward(x, branch, norm.sum, weight, norm.mean, norm.rstd, true, true); });
  Measure("bias + GELU", 2 * narrow, [&] { BiasGelu(x, bias, true); });
  Measure("bias + GELU, backward", 3 * narrow, [&] { BiasGeluBackward(branch, x, bias, true); });
  Measure("SwiGLU", 3 * narrow, [&] { SwiGlu(x, branch); });
  Measure("SwiGLU, backward", 5 * narrow, [&] { SwiGluBackward(x, branch, norm.sum); });
  const at::Tensor logits = at::randn({4096, 50304}, options);
  const at::Tensor targets = at::randint(50304, {4096}, options.dtype(at::kLong));
  Measure("cross-entropy", 2.0 * static_cast<double>(logits.numel()), [&] { CrossEntropy(logits, targets, -100); });
  const int64_t size = 1 << 27;
  const auto floats = [&] { return at::randn({size}, options.dtype(at::kFloat)); };
  const Tensors p = {floats()}, g = {floats()}, m = {floats()}, v = {floats().abs()};
  const Tensors step = {at::ones({}, options.dtype(at::kFloat))}, copies = {p[0].to(at::kBFloat16)};
  Measure("AdamW with bfloat16 copies", 30.0 * static_cast<double>(size),
          [&] { AdamW(p, g, m, v, step, {1e-4, 0.9, 0.95, 0.1, 1e-8}, std::nullopt, copies); });
  Measure("LibTorch's AdamW", 28.0 * static_cast<double>(size),
          [&] { at::_fused_adamw_(p, g, m, v, {}, step, 1e-4, 0.9, 0.95, 0.1, 1e-8, false, false); });
}

}  // namespace
}  // namespace composer::kernels
