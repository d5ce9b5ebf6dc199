// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/state_dict.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"

namespace composer {

absl::StatusOr<int64_t> StoredBytes(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " is undefined"));
  if (tensor.layout() != at::kStrided || DTypeName(tensor.scalar_type()).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " of type ", tensor.toString(), " cannot be stored"));
  }
  return static_cast<int64_t>(tensor.numel()) * static_cast<int64_t>(tensor.element_size());
}

absl::Status CheckShard(const ShardedTensor& tensor, const Shard& shard) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("a shard of tensor ", tensor.name, " ", what));
  };
  RETURN_IF_ERROR(StoredBytes(tensor.name, shard.data).status());
  if (shard.data.scalar_type() != tensor.dtype) return bad("has another dtype");
  const at::IntArrayRef shape = shard.data.sizes();
  if (shape.size() != tensor.shape.size() || shard.offset.size() != tensor.shape.size())
    return bad("has another number of dimensions");
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shard.offset[d] < 0 || shard.offset[d] > tensor.shape[d] || shape[d] > tensor.shape[d] - shard.offset[d])
      return bad(absl::StrCat("lies outside it in dimension ", d));
  }
  return absl::OkStatus();
}

}  // namespace composer
