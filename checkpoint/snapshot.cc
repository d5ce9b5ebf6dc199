// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/snapshot.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/layout.h"

namespace composer {
namespace {

struct Share {
  std::vector<size_t> own;  // indices of the tensors
  int64_t bytes = 0;        // in a HostBuffer
};

absl::StatusOr<Share> ShareOf(const StateDict& state, int rank, int world_size) {
  std::vector<int64_t> bytes;
  bytes.reserve(state.tensors.size());
  for (const auto& [name, tensor] : state.tensors) {
    ASSIGN_OR_RETURN(const int64_t size, StoredBytes(name, tensor));
    bytes.push_back(size);
  }
  const std::vector<int> owner = BalanceByBytes(bytes, world_size);
  Share share;
  for (size_t i = 0; i < owner.size(); ++i) {
    if (owner[i] != rank) continue;
    share.own.push_back(i);
    share.bytes += HostBuffer::Aligned(bytes[i]);
  }
  return share;
}

Snapshot WithoutTensors(const StateDict& state) {
  Snapshot snapshot;
  snapshot.names.reserve(state.tensors.size());
  for (const auto& [name, tensor] : state.tensors) snapshot.names.push_back(name);
  snapshot.small = state.small;
  return snapshot;
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

absl::StatusOr<Snapshot> BorrowState(const StateDict& state, int rank, int world_size) try {
  ASSIGN_OR_RETURN(const Share share, ShareOf(state, rank, world_size));
  Snapshot snapshot = WithoutTensors(state);
  for (const size_t i : share.own) snapshot.own.push_back(ToHost(state.tensors[i].first, state.tensors[i].second));
  return snapshot;
} catch (const std::exception& error) {
  return WhatTorchSays(error);
}

absl::StatusOr<Snapshot> CopyState(const StateDict& state, int rank, int world_size, HostBuffer& buffer) try {
  const at::NoGradGuard no_grad;
  ASSIGN_OR_RETURN(const Share share, ShareOf(state, rank, world_size));
  try {
    buffer.Reserve(share.bytes);
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no host memory for a copy of ", share.bytes, " bytes (",
                                                     WhatTorchSays(error).message(),
                                                     "); save_async: false needs none"));
  }
  Snapshot snapshot = WithoutTensors(state);
  snapshot.own.reserve(share.own.size());
  std::set<at::Device, ByIndex> devices;
  int64_t at = 0;
  for (const size_t i : share.own) {
    const auto& [name, tensor] = state.tensors[i];
    at::Tensor copy = buffer.View(at, tensor.scalar_type(), tensor.sizes());
    CopyInto(copy, tensor);
    if (!tensor.is_cpu()) devices.insert(tensor.device());
    at += HostBuffer::Aligned(static_cast<int64_t>(copy.nbytes()));
    snapshot.own.push_back({name, std::move(copy)});
  }
  for (const at::Device& device : devices) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  return snapshot;
} catch (const std::exception& error) {
  return WhatTorchSays(error);
}

}  // namespace composer
