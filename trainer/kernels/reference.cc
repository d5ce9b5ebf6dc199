// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/reference.h"

#include <ATen/ATen.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

namespace composer::kernels {
namespace reference {
namespace {

using MaybeTensor = const std::optional<at::Tensor>&;
using In = const at::Tensor&;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

at::Tensor None(In x) { return at::empty({0}, x.options()); }
std::string_view Approximation(bool by_tanh) { return by_tanh ? "tanh" : "none"; }

void AdamW(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
           at::TensorList steps, double lr, double beta1, double beta2, double weight_decay, double eps,
           MaybeTensor found_inf, at::TensorList copies) {
  at::_fused_adamw_(params, grads, exp_avgs, exp_avg_sqs, {}, steps, lr, beta1, beta2, weight_decay, eps,
                    /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/std::nullopt, found_inf);
  for (size_t i = 0; i < copies.size(); ++i) copies[i].copy_(params[i]);
}

Four Norm(In x, MaybeTensor branch, In weight, MaybeTensor bias, double eps, bool centred, at::ScalarType narrow) {
  const at::Tensor sum = branch.has_value() ? (x + *branch).to(x.scalar_type()) : x;
  const at::Tensor wide = sum.to(at::kFloat);
  const at::Tensor mean = centred ? wide.mean(-1, /*keepdim=*/true) : at::zeros_like(wide.select(-1, 0).unsqueeze(-1));
  const at::Tensor from_mean = wide - mean;
  const at::Tensor rstd = at::rsqrt(from_mean.square().mean(-1, /*keepdim=*/true) + eps);
  at::Tensor y = from_mean * rstd;
  if (!centred) y = y.to(x.scalar_type());
  y = y * weight.to(at::kFloat);
  if (bias.has_value()) y = y + bias->to(at::kFloat);
  return {y.to(narrow), branch.has_value() ? sum : None(x), mean.flatten(), rstd.flatten()};
}

Four NormBackward(In dy, MaybeTensor dsum, In sum, In weight, In mean, In rstd, bool centred, bool has_bias) {
  std::vector<int64_t> rows = sum.sizes().vec();
  rows.back() = 1;
  const at::Tensor scale = rstd.view(rows);
  const at::Tensor scaled = (sum.to(at::kFloat) - mean.view(rows)) * scale;
  const at::Tensor wide_dy = dy.to(at::kFloat);
  const at::Tensor g = wide_dy * weight.to(at::kFloat);
  at::Tensor dx = g - scaled * (g * scaled).mean(-1, true);
  if (centred) dx = dx - g.mean(-1, true);
  dx = dx * scale;
  if (dsum.has_value()) dx = dx + dsum->to(at::kFloat);
  const auto of_columns = [&](In x) { return x.reshape({-1, x.size(-1)}).sum(0).to(weight.scalar_type()); };
  return {dx.to(sum.scalar_type()), dy.scalar_type() == sum.scalar_type() ? None(dy) : dx.to(dy.scalar_type()),
          of_columns(wide_dy * scaled), has_bias ? of_columns(wide_dy) : None(weight)};
}

at::Tensor BiasGelu(In x, In bias, bool by_tanh) {
  return at::gelu(x.to(at::kFloat) + bias.to(at::kFloat), Approximation(by_tanh)).to(x.scalar_type());
}

Pair BiasGeluBackward(In dy, In x, In bias, bool by_tanh) {
  const at::Tensor dx =
      at::gelu_backward(dy.to(at::kFloat), x.to(at::kFloat) + bias.to(at::kFloat), Approximation(by_tanh));
  return {dx.to(x.scalar_type()), dx.reshape({-1, dx.size(-1)}).sum(0).to(bias.scalar_type())};
}

at::Tensor SwiGlu(In gate, In up) { return at::silu(gate) * up; }

Pair SwiGluBackward(In dy, In gate, In up) { return {at::silu_backward(dy * up, gate), dy * at::silu(gate)}; }

at::Tensor Rotate(In x, In cos, In sin, bool back) {
  const auto turned = [](In of, bool backwards) {
    const std::vector<at::Tensor> halves = of.chunk(2, -1);
    return backwards ? at::cat({halves[1], -halves[0]}, -1) : at::cat({-halves[1], halves[0]}, -1);
  };
  return back ? x * cos + turned(x * sin, true) : x * cos + turned(x, false) * sin;
}

Pair CrossEntropy(In logits, In targets, int64_t ignore_index) {
  const at::Tensor wide = logits.to(at::kFloat);
  return {at::cross_entropy_loss(wide, targets, {}, at::Reduction::None, ignore_index), at::logsumexp(wide, {1})};
}

void CrossEntropyBackward(at::Tensor& logits, In targets, In lse, In dloss, int64_t ignore_index) {
  const at::Tensor counts = targets.ne(ignore_index);
  at::Tensor gradient = (logits.to(at::kFloat) - lse.unsqueeze(1)).exp();
  const at::Tensor columns = targets.where(counts, at::zeros_like(targets)).unsqueeze(1);
  gradient.scatter_add_(1, columns, at::full_like(columns, -1, gradient.options()));
  // Not a product with 0: a gradient of a token that does not count may be NaN.
  const at::Tensor scaled = gradient * dloss.unsqueeze(1);
  logits.copy_(scaled.where(counts.unsqueeze(1), at::zeros_like(scaled)));
}

}  // namespace
}  // namespace reference

void RegisterReference(torch::Library& library) {
  library.impl("adamw_", &reference::AdamW);
  library.impl("norm", &reference::Norm);
  library.impl("norm_backward", &reference::NormBackward);
  library.impl("bias_gelu", &reference::BiasGelu);
  library.impl("bias_gelu_backward", &reference::BiasGeluBackward);
  library.impl("swiglu", &reference::SwiGlu);
  library.impl("swiglu_backward", &reference::SwiGluBackward);
  library.impl("rotate", &reference::Rotate);
  library.impl("cross_entropy", &reference::CrossEntropy);
  library.impl("cross_entropy_backward_", &reference::CrossEntropyBackward);
}

}  // namespace composer::kernels
