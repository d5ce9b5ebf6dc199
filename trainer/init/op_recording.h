// OpRecording records what is done to tensors that have no memory yet, so that it can be done later to real ones: it
// keeps the operations in order, finds those that a tensor's values depend on, and runs them. Tensors here are of
// device meta; each is identified by its storage, sizes, strides and offset, so that views, in-place operations and
// parameters that change their data are not special cases. Source of the method: torchdistX, deferred_init
// (pytorch.org/torchdistx/latest/deferred_init.html).
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

// Threads: the const methods are thread-safe once nothing is added any more.
class OpRecording {
 public:
  using StorageKey = const c10::StorageImpl*;
  static StorageKey KeyOf(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }
  // Returns whether values of the tensor's storage come from operations recorded here.
  bool Knows(const at::Tensor& tensor) const;

  // Records an operation. `args` are those of the call, with the devices of the real run; unknown tensors are real and
  // are copied, so that they keep their current values. `outputs` are its tensors, in order. Does nothing when the
  // operation neither makes a storage nor writes to one.
  void Add(const c10::OperatorHandle& op, const torch::jit::Stack& args, const std::vector<at::Tensor>& outputs);

  // Returns, in order, the operations without which the values of `storage` would be different.
  using Slice = std::set<size_t>;
  Slice SliceOf(StorageKey storage) const;
  bool IsRandom(size_t op) const { return ops_[op].random; }
  const char* NameOf(size_t op) const { return ops_[op].handle.schema().name().c_str(); }
  // Returns the maximum bytes that a run of the slice needs: those of the storages that it makes.
  int64_t BytesOf(const Slice& slice) const;

  // Runs the slice on the CPU, without gradients. seed_of returns the seed of a random operation, whose numbers depend
  // only on it.
  using RealStorages = absl::flat_hash_map<StorageKey, at::Tensor>;
  RealStorages Run(const Slice& slice, const std::function<uint64_t(size_t op)>& seed_of) const;
  // Returns `meta` in real memory; its storage must be among them.
  static at::Tensor ViewOf(const RealStorages& storages, const at::Tensor& meta);
  // Returns the arguments with known tensors replaced by real ones.
  static torch::jit::Stack WithReal(const torch::jit::Stack& args, const RealStorages& storages);

  // Returns a fingerprint, equal for recordings of the same operations on the same values.
  uint64_t Fingerprint() const;
  size_t size() const { return ops_.size(); }

 private:
  struct Op {
    c10::OperatorHandle handle;
    torch::jit::Stack args;           // known tensors are aliases, which nobody can change
    std::vector<at::Tensor> outputs;  // also aliases; all of them, in order
    std::vector<StorageKey> reads, made;
    bool random;
  };
  void Need(StorageKey storage, size_t before, Slice& slice) const;
  bool Overwrites(const Op& op, StorageKey storage) const;
  void RunOne(const Op& op, uint64_t seed, RealStorages& real) const;

  std::vector<Op> ops_;
  absl::flat_hash_map<StorageKey, std::vector<size_t>> writers_;  // ascending; the first writer makes the storage
};

// Returns all defined tensors among the values, including those in lists, in order.
std::vector<at::Tensor> TensorsOf(c10::ArrayRef<c10::IValue> values);
// Returns a copy of the values with each defined tensor replaced.
torch::jit::Stack MapTensors(const torch::jit::Stack& values, const std::function<at::Tensor(const at::Tensor&)>& map);
// Returns the position of the argument with this name, or -1.
int ArgumentIndex(const c10::FunctionSchema& schema, const char* name);

}  // namespace composer
