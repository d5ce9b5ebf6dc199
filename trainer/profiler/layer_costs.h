// LayerCosts measures what each layer of a model takes on a CPU: the time, floating-point operations and bytes of
// LibTorch's operators, forward and backward.
//
// An operator belongs to the layer whose parameter or buffer it reads, else to the module whose ModuleCall is open
// (core/module_call.h), else to "(other)"; the operators that it calls belong there, too. In the backward pass it
// belongs to the layer whose operator made its node of the graph. Operators that only call others (linear, matmul) are
// looked through, so that a layer's work is that of what really ran.
//
// Operations are counted for products of matrices, convolutions and attention. Bytes are those of the tensors that an
// operator reads or writes, each once, whatever a cache holds; a view moves none, and an embedding reads as much as it
// returns.
//
// It is a RecordFunction callback of this thread, which is also that of the backward pass on a CPU, while it lives; an
// operator then costs about a microsecond more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/profiler/roofline.h"

namespace composer {

// At most one may exist per thread, on which it is made, used and destroyed.
class LayerCosts {
 public:
  explicit LayerCosts(const torch::nn::Module& model);
  ~LayerCosts();
  LayerCosts(const LayerCosts&) = delete;
  LayerCosts& operator=(const LayerCosts&) = delete;

  // Returns what was measured, layers in the model's order, forward before backward.
  std::vector<LayerWork> Take() const;

 private:
  static constexpr int kOptimizer = 0, kOther = 1, kFirstLayer = 2, kUnknown = -1;
  struct Span;  // a running operator, module or node of the graph
  enum class Kind { kCallsOthers, kView, kWorks };
  struct Operator {
    Kind kind;
    std::vector<size_t> changed;  // arguments that it changes
  };

  static std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& record);
  static void OnEnd(const at::RecordFunction& record, at::ObserverContext* context);
  std::unique_ptr<at::ObserverContext> Start(const at::RecordFunction& record);
  std::unique_ptr<at::ObserverContext> StartOperator(const at::RecordFunction& record);
  void End(const at::RecordFunction& record, Span& span);
  // Opens a span of a layer; kUnknown leaves that of the span around it.
  std::unique_ptr<Span> Open(int layer);
  int LayerOf(c10::ArrayRef<const c10::IValue> inputs) const;
  const Operator& Find(const c10::OperatorName& name);

  std::vector<std::string> names_;                                // by layer
  absl::flat_hash_map<const torch::nn::Module*, int> by_module_;  // layers
  absl::flat_hash_map<const c10::TensorImpl*, int> by_tensor_;    // layers
  std::unordered_map<std::string, Operator> operators_;           // by name with overload; they stay in place
  absl::flat_hash_map<int64_t, int> by_sequence_;                 // layers, by number of a node
  std::vector<LayerWork> forward_, backward_;                     // by layer
  at::CallbackHandle handle_;
  int layer_ = kUnknown;  // of the innermost span
  int backward_depth_ = 0, work_depth_ = 0;
};

}  // namespace composer
