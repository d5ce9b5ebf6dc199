// SPDX-License-Identifier: Apache-2.0
#include "worker/cuda/kernels/operators.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>

#include <optional>
#include <tuple>
#include <vector>

namespace composer::device {
namespace {

using Optional = const std::optional<at::Tensor>&;
using In = const at::Tensor&;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Stream (*current_stream)() = nullptr;  // set once, by RegisterOperators

Type TypeOf(const char* what, at::ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kBFloat16, "composer::", what,
                              ": kernels are there for float32 and bfloat16, not for ", type);
  return type == at::kFloat ? Type::kFloat : Type::kBf16;
}

// As kernels read in packs: contiguous, and aligned for 32 bytes. A view into a flat buffer need not be.
at::Tensor Dense(In x) {
  const at::Tensor dense = x.contiguous();
  return reinterpret_cast<uintptr_t>(dense.const_data_ptr()) % 32 == 0 ? dense : dense.clone();
}
at::Tensor Dense(In x, at::ScalarType type) { return Dense(x.to(type)); }
std::optional<at::Tensor> Dense(Optional x, at::ScalarType type) {
  return x.has_value() ? std::optional(Dense(*x, type)) : std::nullopt;
}
const void* Data(In x) { return x.const_data_ptr(); }
const void* Data(Optional x) { return x.has_value() ? x->const_data_ptr() : nullptr; }

const float* ReadFloats(In x) {
  TORCH_CHECK_NOT_IMPLEMENTED(x.scalar_type() == at::kFloat, "composer::…: expected float32, got ", x.scalar_type());
  return static_cast<const float*>(x.const_data_ptr());
}

at::Tensor None(In x) { return at::empty({0}, x.options()); }
at::Tensor Floats(In x, at::IntArrayRef sizes) { return at::empty(sizes, x.options().dtype(at::kFloat)); }
at::Tensor Like(In x, at::ScalarType type) { return at::empty(x.sizes(), x.options().dtype(type)); }

void AdamW(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
           at::TensorList steps, double lr, double beta1, double beta2, double weight_decay, double eps,
           Optional found_inf, at::TensorList copies) {
  std::vector<AdamWTensor> tensors;
  tensors.reserve(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    for (const at::Tensor& x : {params[i], grads[i], exp_avgs[i], exp_avg_sqs[i]})
      TORCH_CHECK_NOT_IMPLEMENTED(x.scalar_type() == at::kFloat && x.is_contiguous(), "composer::adamw_: parameter ", i,
                                  " is not contiguous float32 with its state");
    tensors.push_back({params[i].mutable_data_ptr<float>(), ReadFloats(grads[i]), exp_avgs[i].mutable_data_ptr<float>(),
                       exp_avg_sqs[i].mutable_data_ptr<float>(),
                       copies.empty() ? nullptr : static_cast<Bf16*>(copies[i].mutable_data_ptr()),
                       ReadFloats(steps[i]), params[i].numel()});
  }
  const float* overflow = found_inf.has_value() ? ReadFloats(*found_inf) : nullptr;
  LaunchAdamW(tensors.data(), static_cast<int64_t>(tensors.size()), {lr, beta1, beta2, weight_decay, eps, overflow},
              current_stream());
}

NormShape ShapeOf(In x, at::ScalarType narrow, bool centred) {
  const NormShape shape{TypeOf("norm", x.scalar_type()), TypeOf("norm", narrow), x.numel() / x.size(-1), x.size(-1),
                        centred};
  TORCH_CHECK_NOT_IMPLEMENTED(
      shape.width <= kNormWidth && (shape.width <= kNormWidth / 2 || shape.width % kNormPack == 0),
      "composer::norm: no kernel for a width of ", shape.width);
  TORCH_CHECK_NOT_IMPLEMENTED(shape.wide == shape.narrow || shape.wide == Type::kFloat,
                              "composer::norm: no kernel for ", x.scalar_type(), " with ", narrow);
  return shape;
}

Four Norm(In x, Optional branch, In weight, Optional bias, double eps, bool centred, at::ScalarType narrow) {
  const at::ScalarType wide = x.scalar_type();
  const NormShape shape = ShapeOf(x, narrow, centred);
  const at::Tensor in = Dense(x), w = Dense(weight, wide);
  const std::optional<at::Tensor> added = Dense(branch, narrow), b = Dense(bias, wide);
  at::Tensor sum = branch.has_value() ? Like(x, wide) : None(x), y = Like(x, narrow);
  at::Tensor mean = Floats(x, {shape.rows}), rstd = Floats(x, {shape.rows});
  LaunchNorm(shape,
             {Data(in), Data(added), Data(w), Data(b), eps, sum.mutable_data_ptr(), y.mutable_data_ptr(),
              mean.mutable_data_ptr<float>(), rstd.mutable_data_ptr<float>()},
             current_stream());
  return {y, sum, mean, rstd};
}

Four GradientsOfNorm(In dy, Optional dsum, In sum, In weight, In mean, In rstd, bool centred, bool has_bias) {
  const at::ScalarType wide = sum.scalar_type(), narrow = dy.scalar_type();
  const NormShape shape = ShapeOf(sum, narrow, centred);
  const at::Tensor g = Dense(dy), x = Dense(sum), w = Dense(weight, wide);
  const std::optional<at::Tensor> more = Dense(dsum, wide);
  at::Tensor dx = Like(sum, wide), dbranch = wide == narrow ? None(dy) : Like(dy, narrow);
  const int64_t parts = NormParts(shape.rows);
  at::Tensor dweight = Floats(sum, {parts, shape.width});
  at::Tensor dbias = has_bias ? Floats(sum, {parts, shape.width}) : None(weight);
  LaunchNormBackward(shape,
                     {Data(g), Data(more), Data(x), Data(w), ReadFloats(mean), ReadFloats(rstd), dx.mutable_data_ptr(),
                      wide == narrow ? nullptr : dbranch.mutable_data_ptr(), dweight.mutable_data_ptr<float>(),
                      has_bias ? dbias.mutable_data_ptr<float>() : nullptr},
                     current_stream());
  return {dx, dbranch, dweight.sum(0).to(weight.scalar_type()),
          has_bias ? dbias.sum(0).to(weight.scalar_type()) : dbias};
}

GeluCall GeluOf(In x, In bias, bool by_tanh) {
  return {TypeOf("bias_gelu", x.scalar_type()), x.numel() / x.size(-1), x.size(-1), by_tanh, Data(x), Data(bias)};
}

at::Tensor BiasGelu(In x, In bias, bool by_tanh) {
  const at::Tensor in = Dense(x), b = Dense(bias, x.scalar_type());
  at::Tensor y = Like(x, x.scalar_type());
  LaunchBiasGelu(GeluOf(in, b, by_tanh), y.mutable_data_ptr(), current_stream());
  return y;
}

Pair BiasGeluBackward(In dy, In x, In bias, bool by_tanh) {
  const at::Tensor in = Dense(x), b = Dense(bias, x.scalar_type()), g = Dense(dy, x.scalar_type());
  at::Tensor dx = Like(x, x.scalar_type());
  at::Tensor dbias = Floats(x, {GeluParts(x.numel() / x.size(-1)), x.size(-1)});
  LaunchBiasGeluBackward(GeluOf(in, b, by_tanh), Data(g), dx.mutable_data_ptr(), dbias.mutable_data_ptr<float>(),
                         current_stream());
  return {dx, dbias.sum(0).to(bias.scalar_type())};
}

at::Tensor SwiGlu(In gate, In up) {
  const at::ScalarType type = gate.scalar_type();
  const at::Tensor a = Dense(gate), b = Dense(up, type);
  at::Tensor y = Like(gate, type);
  LaunchSwiGlu(TypeOf("swiglu", type), a.numel(), Data(a), Data(b), y.mutable_data_ptr(), current_stream());
  return y;
}

Pair SwiGluBackward(In dy, In gate, In up) {
  const at::ScalarType type = gate.scalar_type();
  const at::Tensor g = Dense(dy, type), a = Dense(gate), b = Dense(up, type);
  at::Tensor dgate = Like(gate, type), dup = Like(gate, type);
  LaunchSwiGluBackward(TypeOf("swiglu", type), a.numel(), Data(g), Data(a), Data(b), dgate.mutable_data_ptr(),
                       dup.mutable_data_ptr(), current_stream());
  return {dgate, dup};
}

at::Tensor Rotate(In x, In cos, In sin, bool back) {
  const at::ScalarType type = x.scalar_type();
  const at::Tensor in = x.stride(-1) == 1 ? x : x.contiguous();
  const at::Tensor c = Dense(cos, type), s = Dense(sin, type);
  at::Tensor y = Like(x, type);
  Rotation call{TypeOf("rotate", type), x.size(0), x.size(1), x.size(2), x.size(3), Data(in), Data(c), Data(s),
                y.mutable_data_ptr(),   {},        {},        {},        back};
  for (int i = 0; i < 3; ++i) {
    call.x_strides[i] = in.stride(i);
    call.y_strides[i] = y.stride(i);
  }
  call.table_strides[0] = c.size(0) == 1 ? 0 : c.stride(0);
  call.table_strides[1] = c.size(2) == 1 ? 0 : c.stride(2);
  LaunchRotation(call, current_stream());
  return y;
}

EntropyShape EntropyOf(In logits, int64_t ignore_index) {
  return {TypeOf("cross_entropy", logits.scalar_type()), logits.size(0), logits.size(1), ignore_index};
}

at::Tensor Classes(In targets) {
  TORCH_CHECK_NOT_IMPLEMENTED(targets.scalar_type() == at::kLong, "composer::cross_entropy: targets are ",
                              targets.scalar_type(), ", not int64");
  return targets.contiguous();
}

Pair CrossEntropy(In logits, In targets, int64_t ignore_index) {
  const at::Tensor in = logits.contiguous(), wanted = Classes(targets);
  at::Tensor loss = Floats(logits, {logits.size(0)}), lse = Floats(logits, {logits.size(0)});
  LaunchCrossEntropy(EntropyOf(in, ignore_index), Data(in), static_cast<const int64_t*>(Data(wanted)),
                     loss.mutable_data_ptr<float>(), lse.mutable_data_ptr<float>(), current_stream());
  return {loss, lse};
}

void CrossEntropyBackward(at::Tensor& logits, In targets, In lse, In dloss, int64_t ignore_index) {
  TORCH_CHECK_NOT_IMPLEMENTED(logits.is_contiguous(), "composer::cross_entropy_backward_: logits are not contiguous");
  const at::Tensor wanted = Classes(targets), g = dloss.contiguous();
  LaunchCrossEntropyBackward(EntropyOf(logits, ignore_index), logits.mutable_data_ptr(),
                             static_cast<const int64_t*>(Data(wanted)), ReadFloats(lse), ReadFloats(g),
                             current_stream());
}

}  // namespace

void RegisterOperators(torch::Library& library, Stream (*stream)()) {
  current_stream = stream;
  library.impl("adamw_", &AdamW);
  library.impl("norm", &Norm);
  library.impl("norm_backward", &GradientsOfNorm);
  library.impl("bias_gelu", &BiasGelu);
  library.impl("bias_gelu_backward", &BiasGeluBackward);
  library.impl("swiglu", &SwiGlu);
  library.impl("swiglu_backward", &SwiGluBackward);
  library.impl("rotate", &Rotate);
  library.impl("cross_entropy", &CrossEntropy);
  library.impl("cross_entropy_backward_", &CrossEntropyBackward);
}

}  // namespace composer::device
