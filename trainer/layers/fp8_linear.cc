// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/fp8_linear.h"

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include "absl/strings/str_cat.h"
#include "trainer/layers/fp8_product.h"
#include "trainer/layers/no_autocast.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr int64_t kMultiple = 16;  // what cuBLAS demands of each dimension

at::Tensor AsMatrix(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

struct Fp8Linear : torch::autograd::Function<Fp8Linear> {
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& weight,
                          const std::optional<at::Tensor>& bias, const c10::intrusive_ptr<Fp8Scaling>& scaling,
                          int64_t layer, at::ScalarType type) {
    const NoAutocastScope off(x.device().type());
    const int64_t margin = scaling->recipe().margin;
    const auto number = static_cast<size_t>(layer);
    const Fp8Matrix input =
        ToFp8(AsMatrix(x), at::kFloat8_e4m3fn, scaling->AmaxOf(number, Fp8Operand::kInput, x), margin);
    const at::Tensor amax = scaling->AmaxOf(number, Fp8Operand::kWeight, weight);
    at::Tensor y = ScaledProduct(input, ToFp8(weight, at::kFloat8_e4m3fn, amax, margin), type, /*fast=*/true);
    if (bias.has_value()) y.add_(*bias);
    ctx->save_for_backward({weight, input.values, input.inverse, amax});
    ctx->saved_data["scaling"] = c10::IValue::make_capsule(scaling);
    ctx->saved_data["layer"] = layer;
    ctx->saved_data["type"] = x.scalar_type();
    ctx->saved_data["shape"] = x.sizes();
    ctx->saved_data["bias"] = bias.has_value() ? std::make_optional(bias->scalar_type()) : std::nullopt;
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return y.view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    TORCH_CHECK_VALUE(!at::GradMode::is_enabled(),
                      "precision: amp_fp8 has no gradient of its gradient (create_graph); give amp_bf16");
    const auto scaling = c10::static_intrusive_pointer_cast<Fp8Scaling>(ctx->saved_data["scaling"].toCapsule());
    const auto layer = static_cast<size_t>(ctx->saved_data["layer"].toInt());
    const Fp8Recipe& recipe = scaling->recipe();
    const NoAutocastScope off(grads[0].device().type());
    const at::Tensor dy = AsMatrix(grads[0]);
    const Fp8Matrix gradient =
        ToFp8(dy, recipe.gradient_type(), scaling->AmaxOf(layer, Fp8Operand::kGradient, dy), recipe.margin);
    variable_list result(6);
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& weight = saved[0];
    if (ctx->needs_input_grad(0)) {
      const Fp8Matrix rounded = ToFp8(weight, at::kFloat8_e4m3fn, saved[3], recipe.margin);
      result[0] = ScaledProduct(gradient, Transposed(rounded), ctx->saved_data["type"].toScalarType(), /*fast=*/false)
                      .view(ctx->saved_data["shape"].toIntVector());
    }
    if (ctx->needs_input_grad(1)) {
      const Fp8Matrix input{saved[1], saved[2]};
      result[1] = ScaledProduct(Transposed(gradient), Transposed(input), weight.scalar_type(), /*fast=*/false);
    }
    if (const c10::IValue& type = ctx->saved_data["bias"]; !type.isNone() && ctx->needs_input_grad(2))
      result[2] = dy.sum(0, /*keepdim=*/false, at::kFloat).to(type.toScalarType());
    return result;
  }
};

}  // namespace

std::string WhyNotFp8(const LinearLayer& linear) {
  const auto not_of = [](int64_t size, const char* what) {
    return size % kMultiple == 0 ? "" : absl::StrCat(size, " ", what, " are not a multiple of ", kMultiple);
  };
  const std::string inputs = not_of(linear.options.in_features(), "inputs");
  return inputs.empty() ? not_of(linear.options.out_features(), "outputs") : inputs;
}

Fp8LinearLayer::Fp8LinearLayer(const LinearLayer& linear, const std::string& name,
                               c10::intrusive_ptr<Fp8Scaling> scaling)
    : LinearLayer(linear), scaling_(std::move(scaling)), number_(scaling_->AddLayer(name)) {}

bool Fp8LinearLayer::Takes(const at::Tensor& x) const {
  return is_training() && scaling_->is_on() && at::autocast::is_autocast_enabled(x.device().type()) &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.numel() > 0 &&
         (x.numel() / x.size(-1)) % kMultiple == 0;
}

at::Tensor Fp8LinearLayer::forward(const at::Tensor& x) {
  if (!Takes(x)) return LinearLayer::forward(x);
  const std::optional<at::Tensor> with = bias.defined() ? std::make_optional(bias) : std::nullopt;
  return Fp8Linear::apply(x, weight, with, scaling_, static_cast<int64_t>(number_),
                          at::autocast::get_autocast_dtype(x.device().type()));
}

}  // namespace composer
