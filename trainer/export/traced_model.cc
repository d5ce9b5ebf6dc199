// SPDX-License-Identifier: Apache-2.0
#include "trainer/export/traced_model.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/types.h>

#include <utility>

namespace composer {
namespace {

// The tracer takes no tensor that requires gradients as a constant.
class Frozen {
 public:
  explicit Frozen(Model& model) : model_(model), was_training_(model.is_training()) {
    for (const at::Tensor& param : model.parameters()) {
      if (param.requires_grad()) trained_.push_back(param);
    }
    for (at::Tensor& param : trained_) param.requires_grad_(false);
    model_.eval();
  }
  ~Frozen() {
    for (at::Tensor& param : trained_) param.requires_grad_(true);
    model_.train(was_training_);
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  Model& model_;
  bool was_training_;
  std::vector<at::Tensor> trained_;
};

}  // namespace

TracedModel TraceModel(Model& model, const Batch& example, TraceForm form) {
  const Frozen frozen(model);
  const at::NoGradGuard no_grad;
  TracedModel traced;
  for (const auto& item : model.named_parameters()) traced.names.emplace(item.value().const_data_ptr(), item.key());
  for (const auto& item : model.named_buffers()) traced.names.emplace(item.value().const_data_ptr(), item.key());
  torch::jit::Stack inputs = {example.inputs};
  traced.inputs = {"inputs"};
  for (const auto& [name, tensor] : example.extra) {
    inputs.emplace_back(tensor);
    traced.inputs.push_back(name);
  }
  const auto forward = [&](torch::jit::Stack stack) -> torch::jit::Stack {
    Batch batch = example;
    batch.inputs = stack[0].toTensor();
    for (size_t i = 1; i < stack.size(); ++i) batch.extra[traced.inputs[i]] = stack[i].toTensor();
    const Outputs outputs = model.eval_forward(batch);
    if (!outputs.is_named()) {
      traced.outputs = {"outputs"};
      return {outputs.tensor()};
    }
    torch::jit::Stack named;
    for (const auto& [name, tensor] : outputs.named()) {
      if (!tensor.defined()) continue;
      traced.outputs.push_back(name);
      named.emplace_back(tensor);
    }
    return named;
  };
  const auto no_names = [](const at::Tensor&) { return std::string(); };
  traced.graph = torch::jit::tracer::trace(std::move(inputs), forward, no_names, /*strict=*/true,
                                           /*force_outplace=*/true)
                     .first->graph;
  if (form == TraceForm::kFolded) torch::jit::ConstantPropagation(traced.graph);
  torch::jit::EliminateDeadCode(traced.graph);
  return traced;
}

}  // namespace composer
