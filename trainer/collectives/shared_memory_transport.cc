// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/shared_memory_transport.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "trainer/collectives/tree_sum.h"

namespace composer {
namespace {

constexpr int64_t kOneRoundBytes = 32 << 10;  // up to here one round of all is faster than two of parts

// Handles zero bytes, since a tensor without elements may have a null address, which memcpy does not allow.
void Copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::string Get(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> value = store.get(key);
  return {value.begin(), value.end()};
}

void Set(c10d::Store& store, const std::string& key, const std::string& value) {
  store.set(key, std::vector<uint8_t>(value.begin(), value.end()));
}

absl::StatusOr<std::unique_ptr<SharedSegment>> MakeOrOpen(c10d::Store& store, const SharedSegment::Options& options) {
  if (options.rank > 0) return SharedSegment::Open(options, Get(store, "ticket"));
  absl::StatusOr<std::unique_ptr<SharedSegment>> segment = SharedSegment::Create(options);
  Set(store, "ticket", segment.ok() ? (*segment)->ticket() : std::string(segment.status().message()));
  return segment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostTransport>> SharedMemoryTransport::Connect(c10d::Store& store,
                                                                              const SharedSegment::Options& options) {
  if (options.size > SharedSegment::kMaxRanks)
    return absl::FailedPreconditionError(absl::StrCat("shared memory: more than ", SharedSegment::kMaxRanks, " ranks"));
  absl::StatusOr<std::unique_ptr<SharedSegment>> segment = MakeOrOpen(store, options);
  Set(store, absl::StrCat("opened/", options.rank), segment.ok() ? "yes" : std::string(segment.status().message()));
  for (int rank = 0; rank < options.size; ++rank) {
    const std::string opened = Get(store, absl::StrCat("opened/", rank));
    if (opened != "yes") return absl::FailedPreconditionError(absl::StrCat("rank ", rank, ": ", opened));
  }
  (*segment)->CloseTicket();
  (*segment)->WatchPeers();
  return std::make_unique<SharedMemoryTransport>(*std::move(segment));
}

SharedMemoryTransport::SharedMemoryTransport(std::unique_ptr<SharedSegment> segment)
    : segment_(std::move(segment)), parts_(static_cast<size_t>(segment_->size())) {}

void SharedMemoryTransport::Run(const CollectiveCall& call, const void* input, void* output) {
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  segment_->Announce(call);
  switch (call.kind) {
    case CollectiveKind::kNone:
      return;
    case CollectiveKind::kAllReduce:
      return world_size() == 2 || call.numel * ElementSize(call) <= kOneRoundBytes ? AllReduce(call, to)
                                                                                   : AllReduceInParts(call, to);
    case CollectiveKind::kAllGather:
      return AllGather(call, from, to);
    case CollectiveKind::kReduceScatter:
      return ReduceScatter(call, from, to);
    case CollectiveKind::kBroadcast:
      return Broadcast(call, to);
  }
}

void SharedMemoryTransport::Round(bool first) {
  segment_->Publish();
  segment_->Await();
  if (first && !segment_->AllAgree()) CheckSameCall(segment_->Calls());
}

void SharedMemoryTransport::AllReduce(const CollectiveCall& call, std::byte* data) {
  const int64_t width = ElementSize(call), piece = segment_->slot_bytes() / width;
  int64_t begin = 0;
  do {
    const int64_t n = std::min(piece, call.numel - begin);
    std::byte* own = data + begin * width;
    Copy(segment_->own_slot(), own, static_cast<size_t>(n * width));
    Round(begin == 0);
    for (int rank = 0; rank < world_size(); ++rank) parts_[static_cast<size_t>(rank)] = segment_->slot(rank);
    parts_[static_cast<size_t>(rank())] = own;
    TreeSum(call.dtype, parts_, own, n);
    begin += piece;
  } while (begin < call.numel);
}

void SharedMemoryTransport::AllReduceInParts(const CollectiveCall& call, std::byte* data) {
  const int64_t width = ElementSize(call), piece = segment_->slot_bytes() / width;
  for (int64_t begin = 0; begin < call.numel; begin += piece) {
    const int64_t n = std::min(piece, call.numel - begin);
    const int64_t part = (n + world_size() - 1) / world_size();
    // Returns the first element of the rank's part of the piece.
    const auto first = [&](int rank) { return std::min(rank * part, n); };
    std::byte* own = data + begin * width;
    Copy(segment_->own_slot(), own, static_cast<size_t>(n * width));
    Round(begin == 0);
    const int64_t mine = first(rank()), length = first(rank() + 1) - mine;
    for (int rank = 0; rank < world_size(); ++rank)
      parts_[static_cast<size_t>(rank)] = segment_->slot(rank) + mine * width;
    std::byte* sum = segment_->own_slot();
    TreeSum(call.dtype, parts_, sum, length);
    Round(false);
    for (int rank = 0; rank < world_size(); ++rank) {
      Copy(own + first(rank) * width, segment_->slot(rank),
           static_cast<size_t>((first(rank + 1) - first(rank)) * width));
    }
  }
}

void SharedMemoryTransport::AllGather(const CollectiveCall& call, const std::byte* input, std::byte* output) {
  const int64_t bytes = call.numel * ElementSize(call), piece = segment_->slot_bytes();
  std::byte* own = output + rank() * bytes;
  if (own != input && bytes > 0) Copy(own, input, static_cast<size_t>(bytes));
  int64_t begin = 0;
  do {
    const size_t n = static_cast<size_t>(std::min(piece, bytes - begin));
    Copy(segment_->own_slot(), own + begin, n);
    Round(begin == 0);
    for (int rank = 0; rank < world_size(); ++rank) {
      if (rank != this->rank()) Copy(output + rank * bytes + begin, segment_->slot(rank), n);
    }
    begin += piece;
  } while (begin < bytes);
}

// A slot holds world_size sub-pieces, one for each rank that sums it.
void SharedMemoryTransport::ReduceScatter(const CollectiveCall& call, const std::byte* input, std::byte* output) {
  const int64_t width = ElementSize(call);
  const int64_t stride = segment_->slot_bytes() / world_size() / 64 * 64, piece = stride / width;
  int64_t begin = 0;
  do {
    const int64_t n = std::min(piece, call.numel - begin);
    for (int rank = 0; rank < world_size(); ++rank) {
      if (rank == this->rank()) continue;
      Copy(segment_->own_slot() + rank * stride, input + (rank * call.numel + begin) * width,
           static_cast<size_t>(n * width));
    }
    Round(begin == 0);
    for (int rank = 0; rank < world_size(); ++rank)
      parts_[static_cast<size_t>(rank)] = segment_->slot(rank) + this->rank() * stride;
    parts_[static_cast<size_t>(rank())] = input + (rank() * call.numel + begin) * width;
    TreeSum(call.dtype, parts_, output + begin * width, n);
    begin += piece;
  } while (begin < call.numel);
}

void SharedMemoryTransport::Broadcast(const CollectiveCall& call, std::byte* data) {
  const int64_t bytes = call.numel * ElementSize(call), piece = segment_->slot_bytes();
  int64_t begin = 0;
  do {
    const size_t n = static_cast<size_t>(std::min(piece, bytes - begin));
    if (rank() == call.root) Copy(segment_->own_slot(), data + begin, n);
    Round(begin == 0);
    if (rank() != call.root) Copy(data + begin, segment_->slot(call.root), n);
    begin += piece;
  } while (begin < bytes);
}

}  // namespace composer
