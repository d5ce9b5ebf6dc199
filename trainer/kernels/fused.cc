// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/fused.h"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "trainer/kernels/operators.h"

namespace composer::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

bool HasType(const at::Tensor& x) { return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16; }

void CheckFirstOrder() {
  TORCH_CHECK_VALUE(!at::GradMode::is_enabled(),
                    "kernels: our own kernels have no gradient of their gradient (create_graph); give kernels: off");
}

std::optional<at::Tensor> Optional(const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

at::ScalarType NarrowOf(const at::Tensor& x, const at::Tensor& branch) {
  if (branch.defined()) return branch.scalar_type();
  const at::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

struct NormFunction : torch::autograd::Function<NormFunction> {
  static variable_list forward(AutogradContext* ctx, const Variable& x, const std::optional<at::Tensor>& branch,
                               const Variable& weight, const std::optional<at::Tensor>& bias, double eps,
                               bool centred) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const bool has_branch = branch.has_value();
    const NormResult result =
        Norm(x, branch, weight, bias, eps, centred, NarrowOf(x, has_branch ? *branch : at::Tensor()));
    ctx->save_for_backward({has_branch ? result.sum : x, weight, result.mean, result.rstd});
    ctx->saved_data["centred"] = centred;
    ctx->saved_data["bias"] = bias.has_value();
    ctx->saved_data["branch"] = has_branch;
    ctx->set_materialize_grads(false);
    return has_branch ? variable_list{result.y, result.sum} : variable_list{result.y};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    CheckFirstOrder();
    const variable_list saved = ctx->get_saved_variables();
    const bool has_branch = ctx->saved_data["branch"].toBool();
    const at::Tensor dsum = has_branch ? grads[1] : at::Tensor();
    // Only the sum has been used.
    if (!grads[0].defined()) return {dsum, dsum, {}, {}, {}, {}};
    NormGradients g = NormBackward(grads[0], Optional(dsum), saved[0], saved[1], saved[2], saved[3],
                                   ctx->saved_data["centred"].toBool(), ctx->saved_data["bias"].toBool());
    const at::Tensor dbranch = has_branch && !g.branch.defined() ? g.x : g.branch;
    return {g.x, has_branch ? dbranch : at::Tensor(), g.weight, g.bias, {}, {}};
  }
};

struct BiasGeluFunction : torch::autograd::Function<BiasGeluFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& bias, bool by_tanh) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({x, bias});
    ctx->saved_data["by_tanh"] = by_tanh;
    return BiasGelu(x, bias, by_tanh);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    CheckFirstOrder();
    const variable_list saved = ctx->get_saved_variables();
    auto [dx, dbias] = BiasGeluBackward(grads[0], saved[0], saved[1], ctx->saved_data["by_tanh"].toBool());
    return {dx, dbias, {}};
  }
};

struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& gate, const Variable& up) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({gate, up});
    return SwiGlu(gate, up);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    CheckFirstOrder();
    const variable_list saved = ctx->get_saved_variables();
    auto [dgate, dup] = SwiGluBackward(grads[0], saved[0], saved[1]);
    return {dgate, dup};
  }
};

struct RotateFunction : torch::autograd::Function<RotateFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& cos, const Variable& sin) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({cos, sin});
    return Rotate(x, cos, sin, /*back=*/false);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    CheckFirstOrder();
    const variable_list saved = ctx->get_saved_variables();
    return {Rotate(grads[0], saved[0], saved[1], /*back=*/true), {}, {}};
  }
};

struct CrossEntropyFunction : torch::autograd::Function<CrossEntropyFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& logits, const Variable& targets, int64_t ignore_index) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [loss, lse] = CrossEntropy(logits, targets, ignore_index);
    ctx->save_for_backward({logits, targets, lse});
    ctx->saved_data["ignore_index"] = ignore_index;
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    CheckFirstOrder();
    const variable_list saved = ctx->get_saved_variables();
    at::Tensor gradient = saved[0].detach();
    CrossEntropyBackward(gradient, saved[1], saved[2], grads[0], ctx->saved_data["ignore_index"].toInt());
    saved[0].unsafeGetTensorImpl()->bump_version();  // so that autograd refuses whoever else has kept them
    return {gradient, {}, {}};
  }
};

}  // namespace

std::string WhyNoNorm(at::ScalarType wide, at::ScalarType narrow, int64_t width) {
  const auto is_one = [](at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16; };
  if (!is_one(wide) || !is_one(narrow) || (wide == at::kBFloat16 && narrow == at::kFloat))
    return absl::StrCat("no norm kernel for ", c10::toString(wide), " with ", c10::toString(narrow));
  if (width < 1 || width > 8192 || (width > 4096 && width % 8 != 0))
    return absl::StrCat("no norm kernel for a width of ", width, ": up to 4096, or a multiple of 8 up to 8192");
  return "";
}

bool TakesNorm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights) {
  return x.dim() >= 1 && weights.weight.defined() && HasKernel(x) && weights.weight.device() == x.device() &&
         weights.weight.sizes() == x.sizes().slice(static_cast<size_t>(x.dim() - 1)) &&
         (!branch.defined() || branch.sizes() == x.sizes()) &&
         WhyNoNorm(x.scalar_type(), NarrowOf(x, branch), x.size(-1)).empty();
}

SumAndNorm AddNorm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights) {
  variable_list result =
      NormFunction::apply(x, Optional(branch), weights.weight, Optional(weights.bias), weights.eps, weights.centred);
  return {branch.defined() ? result[1] : x, result[0]};
}

bool TakesBiasGelu(const at::Tensor& x) { return HasType(x) && x.dim() >= 1 && HasKernel(x); }

at::Tensor BiasGeluWithGradient(const at::Tensor& x, const at::Tensor& bias, bool by_tanh) {
  return BiasGeluFunction::apply(x, bias, by_tanh);
}

bool TakesSwiGlu(const at::Tensor& gate, const at::Tensor& up) {
  return HasType(gate) && up.scalar_type() == gate.scalar_type() && up.sizes() == gate.sizes() && HasKernel(gate);
}

at::Tensor SwiGluWithGradient(const at::Tensor& gate, const at::Tensor& up) { return SwiGluFunction::apply(gate, up); }

bool TakesRotation(const at::Tensor& x, const at::Tensor& cos) {
  return HasType(x) && x.dim() == 4 && x.size(3) % 2 == 0 && cos.dim() == 4 && cos.size(1) == 1 &&
         cos.size(2) == x.size(2) && cos.size(3) == x.size(3) && HasKernel(x);
}

at::Tensor RotateWithGradient(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return RotateFunction::apply(x, cos, sin);
}

bool TakesCrossEntropy(const at::Tensor& logits) { return HasType(logits) && logits.dim() == 2 && HasKernel(logits); }

at::Tensor CrossEntropyWithGradient(const at::Tensor& logits, const at::Tensor& targets, int64_t ignore_index) {
  return CrossEntropyFunction::apply(logits, targets, ignore_index);
}

}  // namespace composer::kernels
