// cpu_kernels [ROUNDS]: our own kernels of a CPU in mixed precision beside LibTorch's operators, forward and
// backward together, by turns in one process on one thread.
//
// Prints a JSON line for each kernel and shape: microseconds of CPU time a call, medians over the rounds, and how often
// ours fits into LibTorch's. The shapes are those of the small GPT (12 x 64 tokens, width 128, 256 classes), of
// GPT-2 124M (4 x 64 tokens, width 768, 50,257 classes) and of the small ResNet (64 pictures, in both layouts).
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "trainer/kernels/cpu_batch_norm.h"
#include "trainer/kernels/cpu_cross_entropy.h"
#include "trainer/kernels/cpu_gelu.h"
#include "trainer/kernels/cpu_norm.h"

namespace composer {
namespace {

using Call = std::function<void()>;

double Microseconds(const Call& call, int64_t calls) {
  const std::clock_t begin = std::clock();
  for (int64_t i = 0; i < calls; ++i) call();
  return 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / static_cast<double>(calls);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void PrintBeside(const std::string& name, int64_t numbers, int rounds, const Call& ours, const Call& theirs) {
  const int64_t calls = std::max<int64_t>(1, 20'000'000 / numbers);
  std::vector<double> own, other;
  Microseconds(ours, 2);
  Microseconds(theirs, 2);
  for (int round = 0; round < rounds; ++round) {
    own.push_back(Microseconds(ours, calls));
    other.push_back(Microseconds(theirs, calls));
  }
  std::printf("{\"name\":\"%s\",\"ours_us\":%.1f,\"torch_us\":%.1f,\"torch_over_ours\":%.2f}\n", name.c_str(),
              Median(own), Median(other), Median(other) / Median(own));
  std::fflush(stdout);
}

// The branch comes out of a product in bfloat16, and the norm's result goes into one.
void CompareNorm(int64_t rows, int64_t width, int rounds) {
  const at::Tensor x = torch::randn({rows, width}).requires_grad_(), dsum = torch::randn({rows, width});
  const at::Tensor branch = torch::randn({rows, width}).to(at::kBFloat16).requires_grad_();
  const at::Tensor weight = torch::ones({width}).requires_grad_(), bias = torch::zeros({width}).requires_grad_();
  const at::Tensor dy = torch::randn({rows, width}).to(at::kBFloat16);
  const auto backward = [&](const at::Tensor& y, const at::Tensor& sum) {
    torch::autograd::grad({y, sum}, {x, branch, weight, bias}, {dy, dsum});
  };
  PrintBeside(
      "add and layer norm " + std::to_string(rows) + " x " + std::to_string(width), rows * width, rounds,
      [&] {
        const kernels::SumAndNorm both = kernels::CpuAddNorm(x, branch, {weight, bias, 1e-5, true});
        backward(both.y, both.sum);
      },
      [&] {
        const at::Tensor sum = x + branch;
        backward(at::layer_norm(sum, {width}, weight, bias, 1e-5).to(at::kBFloat16), sum);
      });
}

void CompareLoss(int64_t rows, int64_t classes, at::ScalarType type, int rounds) {
  const at::Tensor logits = torch::randn({rows, classes}).to(type).requires_grad_();
  const at::Tensor targets = torch::randint(classes, {rows}, at::kLong);
  PrintBeside(
      std::string("cross-entropy ") + c10::toString(type) + " " + std::to_string(rows) + " x " +
          std::to_string(classes),
      rows * classes, rounds,
      [&] {
        torch::autograd::grad({kernels::CpuCrossEntropy(logits, targets, -100).sum() / targets.ne(-100).sum()},
                              {logits});
      },
      [&] { torch::autograd::grad({at::cross_entropy_loss(logits.to(at::kFloat), targets)}, {logits}); });
}

void CompareGelu(int64_t numbers, at::ScalarType type, int rounds) {
  const at::Tensor x = torch::randn({numbers}).to(type).requires_grad_(), dy = torch::ones_like(x);
  PrintBeside(
      std::string("GELU ") + c10::toString(type) + " " + std::to_string(numbers), 4 * numbers, rounds,
      [&] { torch::autograd::grad({kernels::GeluByTanh(x)}, {x}, {dy}); },
      [&] { torch::autograd::grad({at::gelu(x, "tanh")}, {x}, {dy}); });
}

// The end of a residual block.
void CompareBatchNorm(int64_t channels, int64_t side, at::MemoryFormat layout, int rounds) {
  const auto picture = [&] { return torch::randn({64, channels, side, side}).contiguous(layout); };
  const at::Tensor x = picture().requires_grad_(), shortcut = picture().requires_grad_(), dy = picture();
  const at::Tensor weight = torch::ones({channels}).requires_grad_(), bias = torch::zeros({channels}).requires_grad_();
  const kernels::BatchNormOf norm = {weight, bias, torch::zeros({channels}), torch::ones({channels}), 0.1, 1e-5, true};
  const auto backward = [&](const at::Tensor& y) { torch::autograd::grad({y}, {x, shortcut, weight, bias}, {dy}); };
  PrintBeside(
      "batch norm, sum and ReLU 64 x " + std::to_string(channels) + " x " + std::to_string(side) + " x " +
          std::to_string(side) + (layout == at::MemoryFormat::ChannelsLast ? " channels last" : ""),
      x.numel(), rounds, [&] { backward(kernels::CpuBatchNorm(x, shortcut, norm, /*relu=*/true)); },
      [&] {
        const at::Tensor y = at::batch_norm(x, weight, bias, norm.running_mean, norm.running_var, norm.training,
                                            norm.momentum, norm.eps, /*cudnn_enabled=*/false);
        backward(at::relu(y + shortcut));
      });
}

int Main(int rounds) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  CompareNorm(768, 128, rounds);
  CompareNorm(256, 768, rounds);
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    CompareLoss(768, 256, type, rounds);
    CompareLoss(256, 50257, type, rounds);
    CompareGelu(768 * 512, type, rounds);
  }
  for (const at::MemoryFormat layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    CompareBatchNorm(16, 28, layout, rounds);
    CompareBatchNorm(64, 7, layout, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) { return composer::Main(argc > 1 ? std::max(1, std::atoi(argv[1])) : 9); }
