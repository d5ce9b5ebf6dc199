// The writer writes one rank's part of a checkpoint: its tensors in one safetensors file, and the manifest entries for
// them. It works on bytes in host memory, so that a caller may pass tensors or copies taken of them earlier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/state_dict.h"
#include "storage/object_store.h"

namespace composer {

// A TensorPart is what a rank writes of a tensor: all of it, or a box.
struct TensorPart {
  std::string name;
  at::Tensor data;
  std::vector<int64_t> offset = {};  // of the box; both empty: the whole tensor
  std::vector<int64_t> shape = {};   // of the whole tensor
};
// A HostTensor is a part whose data is on the CPU and contiguous; it shares memory with the original if that was so
// already.
using HostTensor = TensorPart;

HostTensor ToHost(const std::string& name, const at::Tensor& tensor);
HostTensor ToHost(const TensorPart& part);

// Returns what this rank writes of the state, without copying: its boxes of the sharded tensors that it writes, and its
// share of the whole ones, so that all ranks write about as many bytes. `sharded_bytes` has ShardedBytes of every rank,
// the same list on all; empty assumes that they are equal. Returns kInvalidArgument, naming the tensor, as StoredBytes
// does, or for a shard that lies outside its tensor or has another dtype.
absl::StatusOr<std::vector<TensorPart>> OwnParts(const StateDict& state, int rank, int world_size,
                                                 absl::Span<const int64_t> sharded_bytes = {});
// Returns the bytes of the sharded tensors that this rank writes.
int64_t ShardedBytes(const StateDict& state);
// Returns the names of all tensors, in the order of the manifest: whole ones, then sharded ones.
std::vector<std::string> TensorNames(const StateDict& state);

// Writes `folder`/rank-XXXXX.safetensors durably and returns a manifest with only this file and its tensors (no file
// when there are no tensors). The memory must not change meanwhile.
absl::StatusOr<Manifest> WritePart(ObjectStore& store, const std::string& folder, int rank,
                                   absl::Span<const HostTensor> tensors);

// Merges the parts of all ranks (by rank): files, tensors in the order of `names` with the boxes of all ranks, small
// state united, lower ranks first. Returns kInternal when they are not exactly the tensors of `names`, or two ranks
// differ in a tensor's dtype or shape.
absl::StatusOr<Manifest> MergeParts(std::vector<Manifest> parts, absl::Span<const std::string> names);

}  // namespace composer
