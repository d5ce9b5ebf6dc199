// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/attention.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <tuple>

namespace composer::mock {
namespace {

using at::SDPBackend;
using at::Tensor;
using Mask = std::optional<Tensor>;
using Scale = std::optional<double>;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

struct Counts {
  std::atomic<int> cudnn{0}, cudnn_backward{0}, efficient{0}, efficient_backward{0};
};
Counts counts;
std::atomic<bool> has_order{true}, prefers_cudnn{false};

// LibTorch's conditions, of those that tests can meet.
bool CudnnTakes(const Tensor& q, double dropout) {
  const at::Context& torch = at::globalContext();
  const bool is_16_bits = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  return torch.userEnabledCuDNNSDP() && is_16_bits && q.size(3) % 8 == 0 && q.size(3) <= 128 &&
         dropout * 16 == std::floor(dropout * 16) && !torch.deterministicAlgorithms();
}

int64_t Choose(const Tensor& q, const Tensor&, const Tensor&, const Mask&, double dropout, bool, Scale, bool) {
  if (!has_order.exchange(true) && prefers_cudnn) at::globalContext().setSDPPriorityOrder({3, 1, 2, 0});
  for (const SDPBackend kernel : at::globalContext().sDPPriorityOrder()) {
    const bool takes = kernel == SDPBackend::cudnn_attention
                           ? CudnnTakes(q, dropout)
                           : kernel == SDPBackend::math && at::globalContext().userEnabledMathSDP();
    if (takes) return static_cast<int64_t>(kernel);
  }
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

// What the operators compute with: in float32, below autograd and without autocast.
class Plain {
  const at::AutoDispatchBelowADInplaceOrView below_;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

struct Attention {
  Tensor q, k, v, bias;
  bool is_causal;
  double scale;

  Attention(const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& added, bool causal,
            Scale given)
      : q(queries.to(at::kFloat)),
        k(keys.to(at::kFloat)),
        v(values.to(at::kFloat)),
        bias(added),
        is_causal(causal),
        scale(given.value_or(1 / std::sqrt(static_cast<double>(queries.size(3))))) {}

  Tensor Logits() const {
    Tensor logits = at::matmul(q, k.transpose(2, 3)) * scale;
    if (bias.defined()) logits = logits + bias.to(at::kFloat);
    if (!is_causal) return logits;
    const auto options = q.options().dtype(at::kBool);
    return logits.masked_fill(at::ones({q.size(2), k.size(2)}, options).triu(1), kHidden);
  }
};

struct Forward {
  Tensor y, logsumexp, kept;  // kept: 0 or 1 / (1 - dropout), in place of the seed of the random numbers
};

Forward Attend(const Attention& a, double dropout, at::ScalarType type) {
  const Tensor logits = a.Logits();
  Forward result{.logsumexp = logits.logsumexp(3, /*keepdim=*/true)};
  Tensor weights = (logits - result.logsumexp).exp();
  result.kept = dropout > 0 ? at::empty_like(weights).bernoulli_(1 - dropout).div_(1 - dropout)
                            : at::ones({1}, weights.options());
  result.y = at::matmul(weights * result.kept, a.v).to(type);
  return result;
}

std::tuple<Tensor, Tensor, Tensor> Backward(const Attention& a, const Tensor& grad, const Tensor& y,
                                            const Tensor& logsumexp, const Tensor& kept) {
  const Tensor weights = (a.Logits() - logsumexp).exp();
  const Tensor dy = grad.to(at::kFloat);
  const Tensor dropped = at::matmul(dy, a.v.transpose(2, 3)) * kept;
  const Tensor dlogits = weights * (dropped - (dy * y.to(at::kFloat)).sum(3, /*keepdim=*/true)) * a.scale;
  return {at::matmul(dlogits, a.k).to(y.scalar_type()), at::matmul(dlogits.transpose(2, 3), a.q).to(y.scalar_type()),
          at::matmul((weights * kept).transpose(2, 3), dy).to(y.scalar_type())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> Cudnn(
    const Tensor& q, const Tensor& k, const Tensor& v, const Mask& bias, bool, double dropout, bool is_causal, bool,
    Scale scale) {
  const Plain plain;
  ++counts.cudnn;
  const Forward result =
      Attend(Attention(q, k, v, bias.value_or(Tensor()), is_causal, scale), dropout, q.scalar_type());
  return {result.y, result.logsumexp, {}, {}, q.size(2), k.size(2), result.kept, at::zeros({}, q.options()), {}};
}

std::tuple<Tensor, Tensor, Tensor> CudnnBackward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                                 const Tensor& y, const Tensor& logsumexp, const Tensor& kept,
                                                 const Tensor&, const Tensor& bias, const Tensor&, const Tensor&,
                                                 int64_t, int64_t, double, bool is_causal, Scale scale) {
  const Plain plain;
  ++counts.cudnn_backward;
  return Backward(Attention(q, k, v, bias, is_causal, scale), grad, y, logsumexp, kept);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> Efficient(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const Mask& bias, bool, double dropout, bool is_causal,
                                                     Scale scale) {
  const Plain plain;
  ++counts.efficient;
  // As CUTLASS's kernel asks for it.
  TORCH_CHECK(!bias || (bias->dim() == 4 && bias->stride(3) == 1 && bias->scalar_type() == q.scalar_type()));
  const Forward result =
      Attend(Attention(q, k, v, bias.value_or(Tensor()), is_causal, scale), dropout, q.scalar_type());
  return {result.y, result.logsumexp, result.kept, at::zeros({}, q.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> EfficientBackward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                                             const Tensor& v, const Tensor& bias, const Tensor& y,
                                                             const Tensor& logsumexp, const Tensor& kept, const Tensor&,
                                                             double, std::array<bool, 4>, bool is_causal, Scale scale) {
  const Plain plain;
  ++counts.efficient_backward;
  return std::tuple_cat(Backward(Attention(q, k, v, bias, is_causal, scale), grad, y, logsumexp, kept),
                        std::make_tuple(Tensor()));
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_fused_sdp_choice", &Choose);
  library.impl("_scaled_dot_product_cudnn_attention", &Cudnn);
  library.impl("_scaled_dot_product_cudnn_attention_backward", &CudnnBackward);
  library.impl("_scaled_dot_product_efficient_attention", &Efficient);
  library.impl("_scaled_dot_product_efficient_attention_backward", &EfficientBackward);
}

}  // namespace

AttentionCalls TakeAttentionCalls() {
  return {counts.cudnn.exchange(0), counts.cudnn_backward.exchange(0), counts.efficient.exchange(0),
          counts.efficient_backward.exchange(0)};
}

void ForgetAttentionOrder(bool prefers) {
  has_order = false;
  prefers_cudnn = prefers;
}

void InstallAttention() { at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&Choose); }

}  // namespace composer::mock
