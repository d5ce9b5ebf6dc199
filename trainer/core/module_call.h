// ModuleCall makes the call of a module observable. LibTorch's modules have no forward hooks, so a module that wants
// its inputs and outputs seen says so in its forward:
//
//   at::Tensor forward(const at::Tensor& x) {
//     ModuleCall call(*this, x);
//     …
//     return call.Output(y);
//   }
//
// An exception that leaves the call records the module (error_place.h).
//
// Observers are RecordFunction callbacks: ActivationMonitor, and torch's profiler, which shows the call as a span named
// after the module's type. Without observers a call costs 20 ns and no allocation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <torch/nn/module.h>

#include <exception>

#include "trainer/layers/call_record.h"

namespace composer {

void NoteFailingModule(const torch::nn::Module& module);

// The call ends with the scope. Threads: those of the forward pass.
class ModuleCall {
 public:
  ModuleCall(const torch::nn::Module& module, const at::Tensor& input)
      : module_(module), record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) BeginCallRecord(record_, module, input);
  }
  ~ModuleCall() {
    if (std::uncaught_exceptions() > 0) NoteFailingModule(module_);
  }
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;
  // Records the output and returns it.
  at::Tensor Output(at::Tensor output) {
    if (record_.isActive()) EndCallRecord(record_, output);
    return output;
  }

  // Returns the module of a recorded call, null for any other record. Must be called in a start callback.
  static const torch::nn::Module* ModuleOf(const at::RecordFunction& record) { return ModuleOfCallRecord(record); }
  // Returns the inputs of the call, without the first, which is the module.
  static c10::ArrayRef<const c10::IValue> InputsOf(const at::RecordFunction& record) {
    return record.inputs().slice(1);
  }

 private:
  const torch::nn::Module& module_;
  at::RecordFunction record_;
};

}  // namespace composer
