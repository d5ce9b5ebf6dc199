// The floating-point operations and bytes of one call of a LibTorch operator, from its arguments and results. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <string>
#include <vector>

namespace composer {

struct OperatorWork {
  double flops = 0;    // two per multiply-add; 0 for what is not a product
  double bytes = 0;    // read and written
  double changed = 0;  // of the arguments that the operator changes
  bool half = false;   // the product is one of bfloat16 or float16
};

// `name` is like "aten::addmm"; `changed` are the arguments that the operator changes. Call it before the operator
// runs, and AddWorkOfOutputs afterwards.
OperatorWork WorkOfInputs(const std::string& name, c10::ArrayRef<const c10::IValue> inputs,
                          const std::vector<size_t>& changed);
void AddWorkOfOutputs(const std::vector<c10::IValue>& outputs, OperatorWork& work);

}  // namespace composer
