// One rank's part of a checkpoint: its tensors in one safetensors file, and the manifest entries for them.
// Works on bytes in host memory, so that a caller may hand over tensors or copies taken of them earlier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_dict.h"
#include "storage/object_store.h"

namespace composer {

// A tensor's bytes in host memory: C order, contiguous.
struct HostTensor {
  std::string name;
  at::Tensor data;  // on the CPU, contiguous; shares memory with the original when that was so already
};

// kInvalidArgument when the tensor is sparse, quantized, undefined or of a dtype that safetensors lacks. Its size in
// bytes otherwise.
absl::StatusOr<int64_t> StoredBytes(const std::string& name, const at::Tensor& tensor);
HostTensor ToHost(const std::string& name, const at::Tensor& tensor);

// Writes `folder`/rank-XXXXX.safetensors, durable when it returns, and returns a manifest with only this file and its
// tensors (no file when there are no tensors). The memory must not change meanwhile.
absl::StatusOr<Manifest> WritePart(ObjectStore& store, const std::string& folder, int rank,
                                   absl::Span<const HostTensor> tensors);

// Puts the parts of all ranks (by rank) together: files, tensors in the order of `names`, small state united, lower
// ranks first. kInternal when they are not exactly the tensors of `names`.
absl::StatusOr<Manifest> MergeParts(absl::Span<const Manifest> parts, absl::Span<const std::string> names);

}  // namespace composer
