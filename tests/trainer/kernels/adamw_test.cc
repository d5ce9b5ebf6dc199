// Tests that the optimizers of AdamW's kind use our own kernel where there is one, here the CUDA kernel's source run by
// the host, with the weights of LibTorch's up to rounding.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <optional>

#include "tests/trainer/kernels/host_kernels.h"
#include "trainer/optim/adam_group.h"
#include "trainer/optim/param_groups.h"

namespace composer {
namespace {

struct Steps {
  std::vector<at::Tensor> params;
  int64_t blocks = 0;
};

ParamGroup GroupOf(const std::vector<at::Tensor>& params) {
  ParamGroup group;
  group.params = params;
  for (size_t i = 0; i < params.size(); ++i) group.names.push_back("p" + std::to_string(i));
  group.lr = group.initial_lr = 0.01;
  group.weight_decay = 0.1;
  return group;
}

// The third step overflows.
Steps FourSteps(bool kernels, AdamDecay decay, const AdamOptions& options = {}, bool device_rate = false,
                bool channels_last = false) {
  torch::manual_seed(9);
  Steps result;
  result.params = {at::randn({7, 9}), at::randn({5}), at::randn({2, 3, 4, 4})};
  if (channels_last) result.params[2] = result.params[2].contiguous(at::MemoryFormat::ChannelsLast);
  for (at::Tensor& param : result.params) param.requires_grad_();
  ParamGroup group = GroupOf(result.params);
  std::optional<HostKernels> own;
  if (kernels) own.emplace();
  const torch::NoGradGuard no_grad;
  AdamGroup adam(group, options, decay);
  if (device_rate) adam.UseDeviceRate(), adam.WriteRate(group);
  for (int step = 0; step < 4; ++step) {
    for (at::Tensor& param : result.params) param.mutable_grad() = at::randn_like(param);
    adam.Step(group, at::full({}, step == 2 ? 1.0F : 0.0F));
  }
  if (kernels) result.blocks = own->TakeBlocks();
  return result;
}

void ExpectNear(const Steps& a, const Steps& b) {
  for (size_t i = 0; i < a.params.size(); ++i)
    EXPECT_TRUE(at::allclose(a.params[i], b.params[i], 1e-5, 1e-6)) << "parameter " << i;
}

TEST(AdamWByOurKernel, TheWeightsOfLibTorchs) {
  for (const AdamDecay decay : {AdamDecay::kDecoupled, AdamDecay::kDecoupledFromPeak}) {
    const Steps own = FourSteps(true, decay), torchs = FourSteps(false, decay);
    ExpectNear(own, torchs);
    EXPECT_GE(own.blocks, 4 * 3) << "the kernel has run in each step, for each parameter";
  }
}

TEST(AdamWByOurKernel, NotForWhatItDoesNotCompute) {
  EXPECT_EQ(FourSteps(true, AdamDecay::kL2).blocks, 0);
  EXPECT_EQ(FourSteps(true, AdamDecay::kDecoupled, {.amsgrad = true}).blocks, 0);
  EXPECT_EQ(FourSteps(true, AdamDecay::kDecoupled, {}, /*device_rate=*/true).blocks, 0);
  const Steps spread = FourSteps(true, AdamDecay::kDecoupled, {}, /*device_rate=*/false, /*channels_last=*/true);
  EXPECT_EQ(spread.blocks, 0);
  ExpectNear(spread, FourSteps(false, AdamDecay::kDecoupled, {}, false, true));
}

}  // namespace
}  // namespace composer
