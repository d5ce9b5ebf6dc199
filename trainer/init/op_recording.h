// What was done to tensors that have no memory yet, so that it can be done later to ones that have: operations in order,
// those that a tensor's values depend on, and the run of these. Tensors here are of device meta; one is known by its
// storage, sizes, strides and offset, so that views, in-place operations and parameters that change their data are no
// special cases. Source of the method: torchdistX, deferred_init (pytorch.org/torchdistx/latest/deferred_init.html).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace composer {

// Threads: those of the const methods, any number at once, once nothing is added any more.
class OpRecording {
 public:
  using StorageKey = const c10::StorageImpl*;
  static StorageKey KeyOf(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }
  // Whether values of the tensor's storage come from operations recorded here.
  bool Knows(const at::Tensor& tensor) const;

  // args: as the operation was called, devices those of the real run; tensors that are not known were real and are
  // copied, so that they keep the values that they had. outputs: its tensors, in order. Not recorded when it neither
  // makes a storage nor writes to one.
  void Add(const c10::OperatorHandle& op, const torch::jit::Stack& args, const std::vector<at::Tensor>& outputs);

  // The operations, in order, without which the values of `storage` would be others.
  using Slice = std::set<size_t>;
  Slice SliceOf(StorageKey storage) const;
  bool IsRandom(size_t op) const { return ops_[op].random; }
  const char* NameOf(size_t op) const { return ops_[op].handle.schema().name().c_str(); }
  // Of the storages that a run of the slice makes: what it needs at most.
  int64_t BytesOf(const Slice& slice) const;

  // Runs the slice on the CPU, without gradients. seed_of: of each random operation, whose numbers depend on it alone.
  using RealStorages = absl::flat_hash_map<StorageKey, at::Tensor>;
  RealStorages Run(const Slice& slice, const std::function<uint64_t(size_t op)>& seed_of) const;
  // `meta` in memory; its storage must be among them.
  static at::Tensor ViewOf(const RealStorages& storages, const at::Tensor& meta);
  // The arguments with known tensors replaced by real ones.
  static torch::jit::Stack WithReal(const torch::jit::Stack& args, const RealStorages& storages);

  // The same for recordings of the same operations on the same values.
  uint64_t Fingerprint() const;
  size_t size() const { return ops_.size(); }

 private:
  struct Op {
    c10::OperatorHandle handle;
    torch::jit::Stack args;           // known tensors as aliases, which nobody can change
    std::vector<at::Tensor> outputs;  // the same; all of them, in order
    std::vector<StorageKey> reads, made;
    bool random;
  };
  void Need(StorageKey storage, size_t before, Slice& slice) const;
  bool Overwrites(const Op& op, StorageKey storage) const;
  void RunOne(const Op& op, uint64_t seed, RealStorages& real) const;

  std::vector<Op> ops_;
  absl::flat_hash_map<StorageKey, std::vector<size_t>> writers_;  // ascending; the first one makes it
};

// All tensors among the values, those in lists too, in order; undefined ones left out.
std::vector<at::Tensor> TensorsOf(c10::ArrayRef<c10::IValue> values);
// A copy of the values with each defined tensor replaced.
torch::jit::Stack MapTensors(const torch::jit::Stack& values, const std::function<at::Tensor(const at::Tensor&)>& map);
// The position of the argument of this name; -1: none.
int ArgumentIndex(const c10::FunctionSchema& schema, const char* name);

}  // namespace composer
