// Sees what goes into and comes out of a model's modules during a forward, and keeps four numbers of each tensor.
//
// Two ways lead from an operation to a module, and neither asks anything of most models:
//   * an operation of torch that reads a parameter or buffer of the model (a matrix product with fc.weight, say) belongs
//     to the module that owns it: "fc". Its other tensors are the module's inputs, its result is the output. Operations
//     that follow on that result with parameters of the same module (adding fc.bias) go on with the same call. A module
//     that is called again (a tied embedding) is "wte", then "wte#2", …
//   * a module that opens a ModuleCall (core/module_call.h) in its forward: blocks, and modules without parameters.
// What neither shows (a ReLU between two layers) is the next module's input.
//
// It is a RecordFunction callback of this thread, and there only while it lives: other forwards pay nothing.
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

// Over the last dimension of a tensor x [.., n], then averaged over the others:
//   l2_norm = sqrt(sum x^2), average = mean x, kurtosis = m4 / m2^2 with mk = mean (x - mean x)^k, max = max x.
// kurtosis is NaN where x is constant. Source: mosaicml composer/callbacks/activation_monitor.py.
struct ActivationStatistics {
  double l2_norm = 0, average = 0, kurtosis = 0, max = 0;
};
// [4] float32 on the tensor's device, without waiting for it. x: floating point, not empty, at least one dimension.
at::Tensor ActivationStatisticsOf(const at::Tensor& x);

// Which module a tensor belongs to. Built from a model once; tensors are known by their memory.
class ModuleIndex {
 public:
  explicit ModuleIndex(const Model& model);
  struct Entry {
    std::string name;  // dotted, "" for the model itself
    std::string type;  // "torch::nn::LinearImpl"
  };
  // Null when the tensor is no (view of a) parameter or buffer.
  const Entry* OwnerOf(const at::Tensor& tensor) const;
  const Entry* Find(const torch::nn::Module& module) const;

 private:
  std::vector<std::unique_ptr<Entry>> entries_;
  absl::flat_hash_map<const void*, const Entry*> by_module_;
  std::map<uintptr_t, std::pair<uintptr_t, const Entry*>> by_memory_;  // begin -> (end, owner)
};

// One at a time a thread.
class ActivationRecorder {
 public:
  // (module, "_input.0" or "_output.0", statistics)
  struct Record {
    std::string module, suffix;
    ActivationStatistics statistics;
  };
  // ignore: modules whose name or type has one of these in it are left out. index outlives the recorder.
  ActivationRecorder(const ModuleIndex& index, std::vector<std::string> ignore);
  ~ActivationRecorder();
  ActivationRecorder(const ActivationRecorder&) = delete;
  ActivationRecorder& operator=(const ActivationRecorder&) = delete;

  // What was seen, in the order of the calls; waits for the device, once.
  std::vector<Record> Take();

 private:
  struct Call;  // of an operation or module under way
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
  // The name of a new call of the module.
  std::string NameCall(const ModuleIndex::Entry& module);
  void Measure(const std::string& module, absl::string_view side, size_t number, const at::Tensor& value);

  const ModuleIndex& index_;
  std::vector<std::string> ignore_;
  at::CallbackHandle handle_;
  int inside_ = 0;  // of operations that belong to a module: what they call is theirs
  absl::flat_hash_map<const ModuleIndex::Entry*, int> calls_;
  // The latest operation's module, the name of its call, and its result.
  const ModuleIndex::Entry* latest_ = nullptr;
  std::string latest_name_;
  at::Tensor latest_output_;
  std::vector<Seen> seen_;
  absl::flat_hash_map<std::string, size_t> places_;  // in seen_, by module + suffix
};

}  // namespace composer
