// Records the call of a module for observers (RecordFunction callbacks), which learn the module's address, its input
// and its output. core/module_call.h is for modules that record their own forward; here is also what a kernel computed
// in a layer's place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <torch/nn/module.h>

namespace composer {

// Starts the record, which must be active, as the module's call.
void BeginCallRecord(at::RecordFunction& record, const torch::nn::Module& module, const at::Tensor& input);
// Ends it with the output, if somebody looks.
void EndCallRecord(at::RecordFunction& record, const at::Tensor& output);

// Returns the module of a recorded call, null for any other record. Must be called in a start callback.
const torch::nn::Module* ModuleOfCallRecord(const at::RecordFunction& record);

}  // namespace composer
