// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/snapshot.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/format/reshard.h"

namespace composer {
namespace {

Snapshot WithoutTensors(const StateDict& state) {
  Snapshot snapshot;
  snapshot.names = TensorNames(state);
  snapshot.small = state.small;
  return snapshot;
}

absl::Status WhatTorchSays(const std::exception& error) {
  const absl::string_view message = error.what();
  return absl::InternalError(message.substr(0, message.find('\n')));
}

// In host memory memcpy is used: it needs no other thread, whereas copy_ waits for LibTorch's pool, which takes four
// times as long when the cores are busy (benchmarks/checkpoint_stall.cc).
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

absl::Status Snapshotter::Take(const StateDict& state, absl::Span<const int64_t> sharded_bytes) try {
  const at::NoGradGuard no_grad;
  if (!Fits(state)) {
    RETURN_IF_ERROR(Plan(state, sharded_bytes));
    if (!Fits(state)) return absl::InvalidArgumentError("two tensors of the state have one name");
  }
  Copy();
  snapshot_.small = state.small;
  return absl::OkStatus();
} catch (const std::exception& error) {
  return WhatTorchSays(error);
}

absl::Status Snapshotter::Plan(const StateDict& state, absl::Span<const int64_t> sharded_bytes) {
  snapshot_ = {};  // views of the buffer must go before it may grow
  ASSIGN_OR_RETURN(const std::vector<TensorPart> parts, OwnParts(state, rank_, world_size_, sharded_bytes));
  int64_t bytes = 0;
  for (const TensorPart& part : parts) bytes += HostBuffer::Aligned(static_cast<int64_t>(part.data.nbytes()));
  try {
    buffer_.Reserve(bytes);
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no host memory for a copy of ", bytes, " bytes (",
                                                     WhatTorchSays(error).message(),
                                                     "); save_async: false needs none"));
  }
  int64_t at = 0;
  snapshot_.own.reserve(parts.size());
  for (const TensorPart& part : parts) {
    at::Tensor copy = buffer_.View(at, part.data.scalar_type(), part.data.sizes());
    at += HostBuffer::Aligned(static_cast<int64_t>(copy.nbytes()));
    snapshot_.own.push_back({part.name, std::move(copy), part.offset, part.shape});
  }
  snapshot_.names = TensorNames(state);
  bytes_.clear(), mine_.clear();
  size_t own = 0;  // parts are in the state's order
  for (const auto& [name, tensor] : state.tensors) {
    bytes_.push_back(tensor.nbytes());
    mine_.push_back(own < parts.size() && parts[own].shape.empty() && parts[own].name == name);
    if (mine_.back()) ++own;
  }
  return absl::OkStatus();
}

bool Snapshotter::Fits(const StateDict& state) {
  const std::vector<std::string>& names = snapshot_.names;
  sources_.clear();
  if (bytes_.size() != state.tensors.size() || names.size() != state.tensors.size() + state.sharded.size())
    return false;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    const auto& [name, tensor] = state.tensors[i];
    if (name != names[i] || !tensor.defined() || tensor.nbytes() != bytes_[i]) return false;
    if (mine_[i] && !AddSource(tensor)) return false;
  }
  for (size_t i = 0; i < state.sharded.size(); ++i) {
    if (state.sharded[i].name != names[bytes_.size() + i] || !AddShards(state.sharded[i])) return false;
  }
  return sources_.size() == snapshot_.own.size();
}

bool Snapshotter::AddSource(const at::Tensor& tensor) {
  if (sources_.size() == snapshot_.own.size()) return false;
  const at::Tensor& copy = snapshot_.own[sources_.size()].data;
  if (tensor.layout() != at::kStrided || tensor.scalar_type() != copy.scalar_type() || tensor.sizes() != copy.sizes())
    return false;
  sources_.push_back(&tensor);
  return true;
}

// Adds the parts that OwnParts makes of the tensor, in that order.
bool Snapshotter::AddShards(const ShardedTensor& tensor) {
  const auto next_is = [&](absl::Span<const int64_t> offset, absl::Span<const int64_t> shape) {
    if (sources_.size() == snapshot_.own.size()) return false;
    const HostTensor& part = snapshot_.own[sources_.size()];
    return part.name == tensor.name && part.data.scalar_type() == tensor.dtype && part.offset == offset &&
           part.shape == shape;
  };
  if (Volume(tensor.shape) == 0) {
    if (rank_ != 0) return true;
    if (!next_is({}, {}) || snapshot_.own[sources_.size()].data.sizes() != at::IntArrayRef(tensor.shape)) return false;
    sources_.push_back(nullptr);
    return true;
  }
  for (const Shard& shard : tensor.shards) {
    if (!tensor.writes || shard.data.numel() == 0) continue;
    if (!next_is(shard.offset, tensor.shape) || !AddSource(shard.data)) return false;
  }
  return true;
}

void Snapshotter::Copy() {
  std::set<at::Device, ByIndex> devices;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i] == nullptr) continue;
    CopyInto(snapshot_.own[i].data, *sources_[i]);
    if (!sources_[i]->is_cpu()) devices.insert(sources_[i]->device());
  }
  for (const at::Device& device : devices) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

}  // namespace composer
