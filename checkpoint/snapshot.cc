// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/snapshot.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

Snapshot WithoutTensors(const StateDict& state) {
  Snapshot snapshot;
  snapshot.names = TensorNames(state);
  snapshot.small = state.small;
  return snapshot;
}

// In a HostBuffer.
int64_t BytesOf(absl::Span<const TensorPart> parts) {
  int64_t bytes = 0;
  for (const TensorPart& part : parts) bytes += HostBuffer::Aligned(static_cast<int64_t>(part.data.nbytes()));
  return bytes;
}

absl::Status WhatTorchSays(const std::exception& error) {
  const absl::string_view message = error.what();
  return absl::InternalError(message.substr(0, message.find('\n')));
}

// In host memory by memcpy: it needs no other thread, where copy_ waits for LibTorch's pool, which takes four times as
// long when the cores are busy (benchmarks/checkpoint_stall.cc).
void CopyInto(at::Tensor& copy, const at::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
    if (copy.nbytes() > 0) std::memcpy(copy.mutable_data_ptr(), tensor.const_data_ptr(), copy.nbytes());
  } else {
    copy.copy_(tensor.detach(), /*non_blocking=*/true);
  }
}

struct ByIndex {
  bool operator()(const at::Device& a, const at::Device& b) const {
    return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index());
  }
};

}  // namespace

absl::StatusOr<Snapshot> BorrowState(const StateDict& state, int rank, int world_size,
                                     absl::Span<const int64_t> sharded_bytes) try {
  ASSIGN_OR_RETURN(const std::vector<TensorPart> parts, OwnParts(state, rank, world_size, sharded_bytes));
  Snapshot snapshot = WithoutTensors(state);
  snapshot.own.reserve(parts.size());
  for (const TensorPart& part : parts) snapshot.own.push_back(ToHost(part));
  return snapshot;
} catch (const std::exception& error) {
  return WhatTorchSays(error);
}

absl::StatusOr<Snapshot> CopyState(const StateDict& state, int rank, int world_size, HostBuffer& buffer) try {
  const at::NoGradGuard no_grad;
  ASSIGN_OR_RETURN(const std::vector<TensorPart> parts, OwnParts(state, rank, world_size));
  const int64_t bytes = BytesOf(parts);
  try {
    buffer.Reserve(bytes);
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no host memory for a copy of ", bytes, " bytes (",
                                                     WhatTorchSays(error).message(),
                                                     "); save_async: false needs none"));
  }
  Snapshot snapshot = WithoutTensors(state);
  snapshot.own.reserve(parts.size());
  std::set<at::Device, ByIndex> devices;
  int64_t at = 0;
  for (const TensorPart& part : parts) {
    at::Tensor copy = buffer.View(at, part.data.scalar_type(), part.data.sizes());
    CopyInto(copy, part.data);
    if (!part.data.is_cpu()) devices.insert(part.data.device());
    at += HostBuffer::Aligned(static_cast<int64_t>(copy.nbytes()));
    snapshot.own.push_back({part.name, std::move(copy), part.offset, part.shape});
  }
  for (const at::Device& device : devices) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  return snapshot;
} catch (const std::exception& error) {
  return WhatTorchSays(error);
}

}  // namespace composer
