// The call of a module as something that can be watched. LibTorch's modules have no forward hooks, so a module that wants
// its inputs and outputs seen says so in its forward:
//
//   at::Tensor forward(const at::Tensor& x) {
//     ModuleCall call(*this, x);
//     …
//     return call.Output(y);
//   }
//
// An exception that leaves the call notes the module (error_place.h).
//
// Watchers are RecordFunction callbacks: ActivationMonitor, and torch's profiler, which shows the call as a span with the
// module's type as its name. Nobody watching: 20 ns, no allocation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <torch/nn/module.h>

#include <exception>
#include <utility>

namespace composer {

void NoteFailingModule(const torch::nn::Module& module);

// Ends with the scope that it is in. Threads: those of the forward.
class ModuleCall {
 public:
  ModuleCall(const torch::nn::Module& module, const at::Tensor& input)
      : module_(module), record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) Begin(module, input);
  }
  ~ModuleCall() {
    if (std::uncaught_exceptions() > 0) NoteFailingModule(module_);
  }
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;
  // Gives output back.
  at::Tensor Output(at::Tensor output) {
    if (record_.isActive() && record_.needsOutputs()) record_.setOutputs(std::vector<c10::IValue>{output});
    return output;
  }

  // The module of a recorded call, null for any other record. Only in a start callback.
  static const torch::nn::Module* ModuleOf(const at::RecordFunction& record);
  // Its inputs, without the first, which is the module.
  static c10::ArrayRef<const c10::IValue> InputsOf(const at::RecordFunction& record) {
    return record.inputs().slice(1);
  }

 private:
  void Begin(const torch::nn::Module& module, const at::Tensor& input);

  const torch::nn::Module& module_;
  at::RecordFunction record_;
};

}  // namespace composer
