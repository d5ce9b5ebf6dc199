// A state dict is what a checkpoint holds, in memory: named tensors and small state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace composer {

// A Shard is a box of a tensor: rows offset[0] to offset[0] + data.size(0) and so on.
struct Shard {
  std::vector<int64_t> offset;  // one number per dimension of the tensor
  at::Tensor data;              // has the box's shape; any device and strides
};

// A ShardedTensor is a tensor of which each rank holds some boxes, or none. All ranks have the same list of them, in
// the same order.
struct ShardedTensor {
  std::string name;
  std::vector<int64_t> shape;  // of the whole tensor
  at::ScalarType dtype = at::kFloat;
  std::vector<Shard> shards;  // held by this rank
  // Says whether this rank writes them. Of the ranks that hold the same box one does (HYBRID_SHARD: those of the first
  // replica); the boxes of all ranks that do fill the tensor exactly. Loading fills them on every rank.
  bool writes = true;
};

struct StateDict {
  // Names are unique, valid UTF-8, 1 to 1024 bytes. Tensors are dense, on any device, with any strides. Every rank has
  // the same list (replicated state) and is assumed to have the same values.
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  // Names are unique among both lists. A checkpoint does not distinguish a sharded tensor from a whole one: what was
  // saved as one may be loaded as the other, and with other boxes.
  std::vector<ShardedTensor> sharded;
  // Key -> JSON text (any JSON value, up to 60 levels deep). It is loaded in canonical form: keys sorted, no spaces.
  // Keys that only some ranks have are united (a rank's own RNG, say); if several ranks have a key, the lowest rank's
  // value is kept.
  std::map<std::string, std::string> small;
};

// Returns the tensor's size in bytes, or kInvalidArgument when it is sparse, quantized, undefined or of a dtype that
// safetensors lacks.
absl::StatusOr<int64_t> StoredBytes(const std::string& name, const at::Tensor& tensor);
// Returns kInvalidArgument when the shard cannot be stored, lies outside its tensor or has another dtype.
absl::Status CheckShard(const ShardedTensor& tensor, const Shard& shard);

}  // namespace composer
