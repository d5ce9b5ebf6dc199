// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/attention_backend.h"

#include <ATen/Context.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>

#include <array>
#include <atomic>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"

namespace composer {
namespace {

using at::SDPBackend;

constexpr std::array<SDPBackend, 4> kOrder = {SDPBackend::cudnn_attention, SDPBackend::flash_attention,
                                              SDPBackend::efficient_attention, SDPBackend::math};

absl::Status Refused(AttentionBackend backend, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("attention_backend: ", AttentionBackendName(backend), " ", why));
}

// LibTorch's settings of attention in this process.
struct Settings {
  std::array<bool, 4> enabled{};  // in kOrder
  std::array<SDPBackend, at::num_sdp_backends> order{};
};

Settings SettingsOfTorch() {
  at::Context& torch = at::globalContext();
  return {{torch.userEnabledCuDNNSDP(), torch.userEnabledFlashSDP(), torch.userEnabledMemEfficientSDP(),
           torch.userEnabledMathSDP()},
          torch.sDPPriorityOrder()};
}

void SetTorch(const Settings& settings) {
  at::Context& torch = at::globalContext();
  torch.setSDPUseCuDNN(settings.enabled[0]);
  torch.setSDPUseFlash(settings.enabled[1]);
  torch.setSDPUseMemEfficient(settings.enabled[2]);
  torch.setSDPUseMath(settings.enabled[3]);
  std::vector<int64_t> order;
  for (const SDPBackend kernel : settings.order) order.push_back(static_cast<int64_t>(kernel));
  torch.setSDPPriorityOrder(order);
}

// Not of kAuto. The named kernel and those behind it.
std::vector<SDPBackend> KernelsFrom(AttentionBackend backend) {
  const auto first = static_cast<int64_t>(backend) - static_cast<int64_t>(AttentionBackend::kCudnn);
  return {kOrder.begin() + first, kOrder.end()};
}

Settings SettingsOf(AttentionBackend backend) {
  Settings settings;
  const size_t first = kOrder.size() - KernelsFrom(backend).size();
  for (size_t i = 0; i < kOrder.size(); ++i) {
    settings.enabled[i] = i >= first;
    settings.order[i] = kOrder[i];
  }
  settings.order.back() = SDPBackend::overrideable;
  return settings;
}

// LibTorch sets its order for this GPU when it is first asked for a kernel, which must not be in the middle of a hold:
// the order that the hold brings back would be the one from before.
void LetTorchSetItsOrder() {
  const at::Tensor x = at::empty({1, 1, 2, 8}, at::TensorOptions(at::kHalf).device(at::kCUDA));
  at::_fused_sdp_choice(x, x, x);
}

struct Held {
  std::mutex mutex;
  int count = 0;
  AttentionBackend backend = AttentionBackend::kAuto;
  Settings before;
  std::atomic<bool> tells = false;
};

Held& TheHeld() {
  static Held held;
  return held;
}

// By the name of the node that autograd has for y. FlashAttention's result is a slice if the width is not a multiple
// of 8.
SDPBackend KernelThatMade(const at::Tensor& y) {
  const std::string node = y.grad_fn()->name();
  if (absl::StrContains(node, "CudnnAttention")) return SDPBackend::cudnn_attention;
  if (absl::StrContains(node, "FlashAttention") || absl::StartsWith(node, "Slice")) return SDPBackend::flash_attention;
  return absl::StrContains(node, "EfficientAttention") ? SDPBackend::efficient_attention : SDPBackend::math;
}

const char* WhatItTakes(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::kCudnn:
      return "cuDNN's takes float16 and bfloat16, heads of at most 128 in multiples of 8, and dropout in sixteenths, "
             "on GPUs from compute capability 8.0";
    case AttentionBackend::kFlash:
      return "FlashAttention 2 takes float16 and bfloat16 without a mask, and heads of at most 256, on GPUs from "
             "compute capability 8.0";
    default:
      return "memory-efficient attention takes heads in multiples of 8, or of 4 in float32";
  }
}

}  // namespace

absl::string_view AttentionBackendName(AttentionBackend backend) {
  constexpr std::array<absl::string_view, 5> kNames = {"auto", "cudnn", "flash", "efficient", "math"};
  return kNames[static_cast<size_t>(backend)];
}

absl::StatusOr<std::vector<SDPBackend>> AttentionKernels(AttentionBackend backend, const AttentionRun& run) {
  if (backend == AttentionBackend::kAuto) return std::vector<SDPBackend>();
  if (!run.on_gpu) return Refused(backend, "needs device: gpu; a CPU has one kernel of attention");
  const bool needs_16_bits = backend == AttentionBackend::kCudnn || backend == AttentionBackend::kFlash;
  if (needs_16_bits && !run.in_16_bits)
    return Refused(backend, "needs precision: amp_bf16, amp_fp16 or amp_fp8; in float32 write efficient, math or auto");
  if (backend == AttentionBackend::kCudnn && run.is_deterministic)
    return Refused(
        backend,
        "does not go with deterministic_mode: LibTorch has no deterministic backward pass of it; write flash, "
        "efficient, math or auto");
  return KernelsFrom(backend);
}

absl::StatusOr<std::unique_ptr<AttentionHold>> AttentionHold::Take(AttentionBackend backend, bool tells) {
  Held& held = TheHeld();
  const std::lock_guard lock(held.mutex);
  if (held.count > 0 && held.backend != backend) {
    return absl::FailedPreconditionError(
        absl::StrCat("attention_backend: ", AttentionBackendName(backend), ", but another trainer of this process has ",
                     AttentionBackendName(held.backend), ", and LibTorch has one choice for all"));
  }
  if (held.count == 0 && backend != AttentionBackend::kAuto) {
    LetTorchSetItsOrder();
    held.before = SettingsOfTorch();
    SetTorch(SettingsOf(backend));
  }
  if (held.count == 0) held.backend = backend;
  ++held.count;
  if (tells) held.tells = true;
  return std::unique_ptr<AttentionHold>(new AttentionHold());
}

AttentionHold::~AttentionHold() {
  Held& held = TheHeld();
  const std::lock_guard lock(held.mutex);
  if (--held.count > 0) return;
  if (held.backend != AttentionBackend::kAuto) SetTorch(held.before);
  held.tells = false;
}

void TellAttentionKernel(const at::Tensor& y, const at::Tensor& q, bool has_mask, double dropout) {
  constexpr std::array<absl::string_view, 4> kNames = {"products of matrices", "FlashAttention 2",
                                                       "memory-efficient attention", "cuDNN"};  // by SDPBackend
  Held& held = TheHeld();
  if (!held.tells.load(std::memory_order_relaxed) || !y.requires_grad() || !held.tells.exchange(false)) return;
  const SDPBackend made = KernelThatMade(y);
  const AttentionBackend wanted = held.backend;
  const bool is_wanted = wanted == AttentionBackend::kAuto || made == kOrder[static_cast<size_t>(wanted) - 1];
  const std::string text =
      absl::StrCat("attention_backend: ", AttentionBackendName(wanted), ": attention is computed by ",
                   kNames[static_cast<size_t>(made)], ", for [", absl::StrJoin(q.sizes(), ", "), "] in ",
                   c10::toString(y.scalar_type()), has_mask ? ", a mask" : "",
                   dropout > 0 ? absl::StrCat(", dropout ", dropout) : "");
  if (is_wanted) {
    LOG(INFO) << text;
  } else {
    LOG(WARNING) << text << "; " << WhatItTakes(wanted);
  }
}

}  // namespace composer
