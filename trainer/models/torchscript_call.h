// Calls a TorchScript method with what a batch has, by the method's schema (torchscript.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "trainer/core/batch.h"

namespace composer {

class TorchScriptCall {
 public:
  // with_outputs means that the first argument is what forward returned. Throws StatusError with kInvalidArgument that
  // names the argument that no batch can provide.
  TorchScriptCall(torch::jit::Method method, bool with_outputs);

  // outputs is None unless with_outputs. Throws c10::ValueError that names an argument that this batch lacks, and
  // whatever the method throws.
  c10::IValue Run(const Batch& batch, const c10::IValue& outputs = {});

 private:
  enum class Source { kOutputs, kInputs, kTargets, kExtra, kWhole, kDefault };
  struct Argument {
    std::string name;
    Source source;
    bool required;  // otherwise the value is `otherwise`
    c10::IValue otherwise;
  };
  Argument Plan(const c10::Argument& argument, bool is_first) const;
  c10::IValue Value(const Argument& argument, const Batch& batch, const c10::IValue& outputs) const;

  torch::jit::Method method_;
  std::vector<Argument> arguments_;
};

}  // namespace composer
