// Shows profilers a kernel of our own on a CPU as LibTorch's dispatcher shows its operators: a record named
// "composer::…", with the tensors that the kernel reads and writes. Weights are left out: who counts by them
// (ActivationRecorder) learns of the layer by a record of its call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <string_view>
#include <vector>

namespace composer::kernels {

// Costs a few nanoseconds when nobody looks.
class KernelRecord {
 public:
  // `name` starts with "composer::", which LayerCosts looks for, and must outlive the record. Undefined tensors are
  // left out.
  template <typename... Tensors>
  explicit KernelRecord(std::string_view name, const Tensors&... inputs) : record_(at::RecordScope::FUNCTION) {
    if (!record_.isActive()) return;
    const std::vector<c10::IValue> values = Values({inputs...});
    record_.before(name, c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
  }
  // Must be called at the end, with what the kernel has written.
  template <typename... Tensors>
  void Wrote(const Tensors&... outputs) {
    if (record_.isActive() && record_.needsOutputs()) record_.setOutputs(Values({outputs...}));
  }

 private:
  static std::vector<c10::IValue> Values(const std::vector<at::Tensor>& tensors) {
    std::vector<c10::IValue> values;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined()) values.emplace_back(tensor);
    }
    return values;
  }

  at::RecordFunction record_;
};

}  // namespace composer::kernels
