// Tests which kernels of attention a run may use, and what it is told at the start. That LibTorch then takes them:
// tests/support/accelerator/attention_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/attention_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/models/gpt.h"
#include "trainer/options/trainer_options.h"

namespace composer {
namespace {

using at::SDPBackend;
using enum AttentionBackend;
using testing::HasSubstr;

constexpr auto kCudnnKernel = SDPBackend::cudnn_attention, kFlashKernel = SDPBackend::flash_attention,
               kEfficientKernel = SDPBackend::efficient_attention, kMathKernel = SDPBackend::math;

TEST(AttentionBackend, PermitsTheNamedKernelAndThoseBehindIt) {
  const struct {
    AttentionBackend backend;
    AttentionRun run;
    std::vector<SDPBackend> kernels;
  } rows[] = {
      {kAuto, {}, {}},
      {kAuto, {.on_gpu = true, .in_16_bits = true, .is_deterministic = true}, {}},
      {kCudnn, {.on_gpu = true, .in_16_bits = true}, {kCudnnKernel, kFlashKernel, kEfficientKernel, kMathKernel}},
      {kFlash, {.on_gpu = true, .in_16_bits = true}, {kFlashKernel, kEfficientKernel, kMathKernel}},
      {kFlash,
       {.on_gpu = true, .in_16_bits = true, .is_deterministic = true},
       {kFlashKernel, kEfficientKernel, kMathKernel}},
      {kEfficient, {.on_gpu = true}, {kEfficientKernel, kMathKernel}},
      {kEfficient, {.on_gpu = true, .in_16_bits = true}, {kEfficientKernel, kMathKernel}},
      {kMath, {.on_gpu = true, .is_deterministic = true}, {kMathKernel}},
  };
  for (const auto& row : rows) {
    const auto kernels = AttentionKernels(row.backend, row.run);
    ASSERT_TRUE(kernels.ok()) << kernels.status();
    EXPECT_EQ(*kernels, row.kernels) << AttentionBackendName(row.backend);
  }
}

TEST(AttentionBackend, RefusesWhatCouldNeverBeUsed) {
  const struct {
    AttentionBackend backend;
    AttentionRun run;
    const char* why;
  } rows[] = {
      {kCudnn, {.in_16_bits = true}, "attention_backend: cudnn needs device: gpu"},
      {kMath, {}, "attention_backend: math needs device: gpu"},
      {kCudnn, {.on_gpu = true}, "attention_backend: cudnn needs precision: amp_bf16, amp_fp16 or amp_fp8"},
      {kFlash, {.on_gpu = true}, "attention_backend: flash needs precision: amp_bf16, amp_fp16 or amp_fp8"},
      {kCudnn,
       {.on_gpu = true, .in_16_bits = true, .is_deterministic = true},
       "attention_backend: cudnn does not go with deterministic_mode"},
  };
  for (const auto& row : rows) {
    const absl::Status status = AttentionKernels(row.backend, row.run).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(row.why));
  }
}

TEST(AttentionBackend, ATrainerIsValidatedWithIt) {
  TrainerOptions options;
  options.model = MakeGpt({.layers = 1, .heads = 1, .width = 8, .context = 4, .vocab = 5});
  options.attention_backend = kCudnn;
  EXPECT_THAT(Validate(options, 1).message(), HasSubstr("attention_backend: cudnn needs device: gpu"));
  options.device = at::Device(at::kCUDA, 0);
  EXPECT_THAT(Validate(options, 1).message(), HasSubstr("attention_backend: cudnn needs precision"));
  options.precision = Precision::kAmpBf16;
  EXPECT_TRUE(Validate(options, 1).ok());
  options.deterministic_mode = true;
  EXPECT_THAT(Validate(options, 1).message(), HasSubstr("does not go with deterministic_mode"));
}

}  // namespace
}  // namespace composer
