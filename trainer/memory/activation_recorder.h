// ActivationRecorder observes the inputs and outputs of a model's modules during a forward and keeps four numbers per
// tensor.
//
// An operation is attributed to a module in two ways, neither of which requires anything of most models:
//   * An operation of torch that reads a parameter or buffer of the model (a matrix product with fc.weight, say)
//     belongs to the module that owns it: "fc". Its other tensors are the module's inputs, its result is the output.
//     Operations on that result with parameters of the same module (adding fc.bias) continue the same call. A module
//     called again (a tied embedding) is "wte", then "wte#2", …
//   * A module may open a ModuleCall (core/module_call.h) in its forward: blocks, and modules without parameters.
// What neither way shows (a ReLU between two layers) is the next module's input.
//
// It is a RecordFunction callback of this thread, only while it lives: other forwards cost nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "trainer/core/model.h"

namespace composer {

// The statistics are taken over the last dimension of a tensor x [.., n], then averaged over the others:
//   l2_norm = sqrt(sum x^2), average = mean x, kurtosis = m4 / m2^2 with mk = mean (x - mean x)^k, max = max x.
// kurtosis is NaN where x is constant. Source: mosaicml composer/callbacks/activation_monitor.py.
struct ActivationStatistics {
  double l2_norm = 0, average = 0, kurtosis = 0, max = 0;
};
// Returns [4] float32 on the tensor's device, without waiting for it. Requires x to be floating point, not empty, with
// at least one dimension.
at::Tensor ActivationStatisticsOf(const at::Tensor& x);

// Maps a tensor to the module that owns it. Built once from a model; it identifies tensors by their memory.
class ModuleIndex {
 public:
  explicit ModuleIndex(const Model& model);
  struct Entry {
    std::string name;  // dotted; "" for the model itself
    std::string type;  // "torch::nn::LinearImpl"
  };
  // Returns null when the tensor is not a (view of a) parameter or buffer.
  const Entry* OwnerOf(const at::Tensor& tensor) const;
  const Entry* Find(const torch::nn::Module& module) const;

 private:
  std::vector<std::unique_ptr<Entry>> entries_;
  absl::flat_hash_map<const void*, const Entry*> by_module_;
  std::map<uintptr_t, std::pair<uintptr_t, const Entry*>> by_memory_;  // begin -> (end, owner)
};

// At most one may exist per thread.
class ActivationRecorder {
 public:
  // An example is (module, "_input.0" or "_output.0", statistics).
  struct Record {
    std::string module, suffix;
    ActivationStatistics statistics;
  };
  // Modules whose name or type contains one of `ignore` are left out. `index` must outlive the recorder.
  ActivationRecorder(const ModuleIndex& index, std::vector<std::string> ignore);
  ~ActivationRecorder();
  ActivationRecorder(const ActivationRecorder&) = delete;
  ActivationRecorder& operator=(const ActivationRecorder&) = delete;

  // Returns what was seen, in the order of the calls. Waits for the device once.
  std::vector<Record> Take();

 private:
  struct Call;  // a running operation or module
  struct Seen {
    std::string module, suffix;
    at::Tensor statistics;  // [4]
  };

  static std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& record);
  static void OnEnd(const at::RecordFunction& record, at::ObserverContext* context);
  std::unique_ptr<at::ObserverContext> Start(const at::RecordFunction& record);
  std::unique_ptr<at::ObserverContext> StartModule(const at::RecordFunction& record, const torch::nn::Module& module);
  std::unique_ptr<at::ObserverContext> StartOperation(const at::RecordFunction& record);
  void End(const at::RecordFunction& record, const Call& call);
  bool IsIgnored(const ModuleIndex::Entry& module) const;
  // Returns the name of a new call of the module.
  std::string NameCall(const ModuleIndex::Entry& module);
  void Measure(const std::string& module, absl::string_view side, size_t number, const at::Tensor& value);

  const ModuleIndex& index_;
  std::vector<std::string> ignore_;
  at::CallbackHandle handle_;
  int inside_ = 0;  // depth of operations that belong to a module: the operations which they call are part of them
  absl::flat_hash_map<const ModuleIndex::Entry*, int> calls_;
  // These describe the latest operation: its module, the name of its call, and its result.
  const ModuleIndex::Entry* latest_ = nullptr;
  std::string latest_name_;
  at::Tensor latest_output_;
  std::vector<Seen> seen_;
  absl::flat_hash_map<std::string, size_t> places_;  // in seen_, by module + suffix
};

}  // namespace composer
