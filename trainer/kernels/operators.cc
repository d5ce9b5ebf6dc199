// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/operators.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "trainer/kernels/reference.h"

namespace composer::kernels {
namespace {

constexpr const char* kSchemas[] = {
    "adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor[] steps, "
    "float lr, float beta1, float beta2, float weight_decay, float eps, Tensor? found_inf, Tensor(d!)[] copies) -> ()",
    "norm(Tensor x, Tensor? branch, Tensor weight, Tensor? bias, float eps, bool centred, ScalarType narrow) -> "
    "(Tensor y, Tensor sum, Tensor mean, Tensor rstd)",
    "norm_backward(Tensor dy, Tensor? dsum, Tensor sum, Tensor weight, Tensor mean, Tensor rstd, bool centred, "
    "bool has_bias) -> (Tensor dx, Tensor dbranch, Tensor dweight, Tensor dbias)",
    "bias_gelu(Tensor x, Tensor bias, bool by_tanh) -> Tensor",
    "bias_gelu_backward(Tensor dy, Tensor x, Tensor bias, bool by_tanh) -> (Tensor dx, Tensor dbias)",
    "swiglu(Tensor gate, Tensor up) -> Tensor",
    "swiglu_backward(Tensor dy, Tensor gate, Tensor up) -> (Tensor dgate, Tensor dup)",
    "rotate(Tensor x, Tensor cos, Tensor sin, bool back) -> Tensor",
    "cross_entropy(Tensor logits, Tensor targets, int ignore_index) -> (Tensor loss, Tensor lse)",
    "cross_entropy_backward_(Tensor(a!) logits, Tensor targets, Tensor lse, Tensor dloss, int ignore_index) -> ()",
};

TORCH_LIBRARY_FRAGMENT(composer, library) {
  for (const char* schema : kSchemas) library.def(schema);
}

TORCH_LIBRARY_IMPL(composer, CompositeExplicitAutograd, library) { RegisterReference(library); }

template <typename Signature>
const c10::TypedOperatorHandle<Signature>& Find(const char* name) {
  static const auto& handle =
      *new c10::TypedOperatorHandle<Signature>(c10::Dispatcher::singleton()
                                                   .findSchemaOrThrow((std::string("composer::") + name).c_str(), "")
                                                   .typed<Signature>());
  return handle;
}

// An operator's result that there is none of: the dispatcher takes no undefined tensors from kernels.
at::Tensor OrNone(at::Tensor x) { return x.numel() == 0 ? at::Tensor() : x; }

using MaybeTensor = const std::optional<at::Tensor>&;
using In = const at::Tensor&;

}  // namespace

bool HasKernel(const at::Tensor& x) {
  static const c10::OperatorHandle& norm =
      *new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow("composer::norm", ""));
  // The reference is registered for all devices at once, which does not count.
  return (x.is_cuda() && norm.hasKernelForDispatchKey(c10::DispatchKey::CUDA)) ||
         (x.is_cpu() && norm.hasKernelForDispatchKey(c10::DispatchKey::CPU));
}

void AdamW(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
           at::TensorList steps, const AdamWSettings& scalars, const std::optional<at::Tensor>& found_inf,
           at::TensorList copies) {
  Find<void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList, double, double, double,
            double, double, MaybeTensor, at::TensorList)>("adamw_")
      .call(params, grads, exp_avgs, exp_avg_sqs, steps, scalars.lr, scalars.beta1, scalars.beta2, scalars.weight_decay,
            scalars.eps, found_inf, copies);
}

NormResult Norm(const at::Tensor& x, const std::optional<at::Tensor>& branch, const at::Tensor& weight,
                const std::optional<at::Tensor>& bias, double eps, bool centred, at::ScalarType narrow) {
  auto [y, sum, mean, rstd] = Find<std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
      In, MaybeTensor, In, MaybeTensor, double, bool, at::ScalarType)>("norm")
                                  .call(x, branch, weight, bias, eps, centred, narrow);
  return {y, branch.has_value() ? sum : at::Tensor(), mean, rstd};
}

NormGradients NormBackward(const at::Tensor& dy, const std::optional<at::Tensor>& dsum, const at::Tensor& sum,
                           const at::Tensor& weight, const at::Tensor& mean, const at::Tensor& rstd, bool centred,
                           bool has_bias) {
  auto [dx, dbranch, dweight, dbias] =
      Find<std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(In, MaybeTensor, In, In, In, In, bool, bool)>(
          "norm_backward")
          .call(dy, dsum, sum, weight, mean, rstd, centred, has_bias);
  return {dx, OrNone(dbranch), dweight, OrNone(dbias)};
}

at::Tensor BiasGelu(const at::Tensor& x, const at::Tensor& bias, bool by_tanh) {
  return Find<at::Tensor(In, In, bool)>("bias_gelu").call(x, bias, by_tanh);
}

std::tuple<at::Tensor, at::Tensor> BiasGeluBackward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& bias,
                                                    bool by_tanh) {
  return Find<std::tuple<at::Tensor, at::Tensor>(In, In, In, bool)>("bias_gelu_backward").call(dy, x, bias, by_tanh);
}

at::Tensor SwiGlu(const at::Tensor& gate, const at::Tensor& up) {
  return Find<at::Tensor(In, In)>("swiglu").call(gate, up);
}

std::tuple<at::Tensor, at::Tensor> SwiGluBackward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  return Find<std::tuple<at::Tensor, at::Tensor>(In, In, In)>("swiglu_backward").call(dy, gate, up);
}

at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool back) {
  return Find<at::Tensor(In, In, In, bool)>("rotate").call(x, cos, sin, back);
}

std::tuple<at::Tensor, at::Tensor> CrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                                                int64_t ignore_index) {
  return Find<std::tuple<at::Tensor, at::Tensor>(In, In, int64_t)>("cross_entropy").call(logits, targets, ignore_index);
}

void CrossEntropyBackward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse, const at::Tensor& dloss,
                          int64_t ignore_index) {
  Find<void(at::Tensor&, In, In, In, int64_t)>("cross_entropy_backward_")
      .call(logits, targets, lse, dloss, ignore_index);
}

}  // namespace composer::kernels
