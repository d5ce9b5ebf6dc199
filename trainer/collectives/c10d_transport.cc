// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/c10d_transport.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "trainer/collectives/abandon.h"
#include "trainer/collectives/tree_sum.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr int64_t kOneStepBytes = 32 << 10;  // up to here one step with more bytes is faster than two

at::Tensor View(const void* data, int64_t n, c10::ScalarType dtype) {
  return at::from_blob(const_cast<void*>(data), {n}, at::TensorOptions().dtype(dtype));
}

at::Tensor Bytes(const void* data, int64_t n) { return View(data, n, at::kByte); }

}  // namespace

C10dTransport::C10dTransport(c10::intrusive_ptr<c10d::Backend> backend, bool check_calls,
                             c10::intrusive_ptr<c10d::Store> last_calls)
    : backend_(std::move(backend)), check_calls_(check_calls), last_calls_(std::move(last_calls)) {}

void C10dTransport::Run(const CollectiveCall& call, const void* input, void* output) {
  absl::Status status = CatchTorch([&] {
    if (check_calls_) CheckCalls(call);
    if (call.numel == 0) return;
    switch (call.kind) {
      case CollectiveKind::kNone:
        return;
      case CollectiveKind::kAllReduce:
        return AllReduce(call, output);
      case CollectiveKind::kAllGather:
        return AllGather(call, input, output);
      case CollectiveKind::kReduceScatter:
        return ReduceScatter(call, static_cast<const std::byte*>(input), output);
      case CollectiveKind::kBroadcast: {
        std::vector<at::Tensor> tensors = {Bytes(output, call.numel * ElementSize(call))};
        c10d::BroadcastOptions options;
        options.rootRank = call.root;
        Await(backend_->broadcast(tensors, options));
      }
    }
  });
  if (status.ok()) return;
  if (call_error_) throw StatusError(status);
  // Gloo reports a lost peer as a plain error of its own, so whatever it throws means that a peer or the network is
  // gone.
  throw StatusError(absl::UnavailableError(absl::StrCat(status.message(), OthersLastCalls())));
}

C10dTransport::~C10dTransport() {
  if (!abandoned_) return;
  // The backend's destructor would wait for the peers, and the pending collective uses both.
  Abandon(std::move(backend_));
  Abandon(std::move(scratch_));
}

void C10dTransport::Await(const c10::intrusive_ptr<c10d::Work>& work) {
  constexpr auto kLook = std::chrono::milliseconds(100);
  for (;;) {
    try {
      work->wait(kLook);
      return;
    } catch (const std::exception&) {
      if (work->isCompleted()) {
        work->wait();  // throws its own error, if any
        return;
      }
    }
    if (!aborted_.load()) continue;
    abandoned_ = true;
    Abandon(work);
    throw StatusError(absl::UnavailableError("aborted"));
  }
}

void C10dTransport::CheckCalls(const CollectiveCall& call) {
  const CollectiveCall::Words words = call.Encode();
  const int64_t length = static_cast<int64_t>(words.size());
  at::Tensor all = at::empty({world_size() * length}, at::kLong), mine = at::empty({length}, at::kLong);
  std::memcpy(mine.mutable_data_ptr(), words.data(), sizeof(words));
  if (last_calls_ != nullptr) {
    const std::string text = call.ToString();
    last_calls_->set(absl::StrCat("last_call/", rank()), std::vector<uint8_t>(text.begin(), text.end()));
  }
  Await(backend_->_allgather_base(all, mine));
  std::vector<CollectiveCall> calls;
  for (int rank = 0; rank < world_size(); ++rank) {
    CollectiveCall::Words theirs;
    std::memcpy(theirs.data(), static_cast<const std::byte*>(all.const_data_ptr()) + rank * sizeof(theirs),
                sizeof(theirs));
    calls.push_back(CollectiveCall::Decode(theirs));
  }
  call_error_ = true;
  CheckSameCall(calls);
  call_error_ = false;
}

std::string C10dTransport::OthersLastCalls() {
  if (last_calls_ == nullptr) return "";
  std::string text = "; last collective of each rank:";
  const absl::Status status = CatchTorch([&] {
    for (int rank = 0; rank < world_size(); ++rank) {
      const std::string key = absl::StrCat("last_call/", rank);
      std::string call = "none";
      if (last_calls_->check({key})) {
        const std::vector<uint8_t> value = last_calls_->get(key);
        call.assign(value.begin(), value.end());
      }
      absl::StrAppend(&text, rank == 0 ? " " : "; ", "rank ", rank, ": ", call);
    }
  });
  return status.ok() ? text : absl::StrCat(text, " cannot be read: ", status.message());
}

void C10dTransport::SumRuns(c10::ScalarType dtype, const std::byte* runs, const void* own, int64_t n, void* out) {
  std::vector<const void*> parts;
  for (int rank = 0; rank < world_size(); ++rank)
    parts.push_back(runs + rank * n * static_cast<int64_t>(c10::elementSize(dtype)));
  parts[static_cast<size_t>(rank())] = own;
  TreeSum(dtype, parts, out, n);
}

std::byte* C10dTransport::Scratch(int64_t bytes) {
  if (!scratch_.defined() || scratch_.numel() < bytes) scratch_ = at::empty({bytes}, at::kByte);
  return static_cast<std::byte*>(scratch_.mutable_data_ptr());
}

void C10dTransport::AllReduce(const CollectiveCall& call, void* data) {
  const int64_t bytes = call.numel * ElementSize(call);
  if (world_size() == 2 && c10::isFloatingType(call.dtype)) {
    std::vector<at::Tensor> tensors = {View(data, call.numel, call.dtype)};
    Await(backend_->allreduce(tensors));
  } else if (bytes <= kOneStepBytes) {
    std::byte* all = Scratch(world_size() * bytes);
    AllGather(call, data, all);
    SumRuns(call.dtype, all, data, call.numel, data);
  } else {
    AllReduceInParts(call, static_cast<std::byte*>(data));
  }
}

// Part r has the elements [r * part, (r + 1) * part), cut off at the end.
void C10dTransport::AllReduceInParts(const CollectiveCall& call, std::byte* data) {
  const int64_t width = ElementSize(call), ranks = world_size(), part = (call.numel + ranks - 1) / ranks;
  const auto length = [&](int64_t rank) { return std::clamp<int64_t>(call.numel - rank * part, 0, part); };
  const int64_t mine = length(rank());
  std::byte* scratch = Scratch(ranks * part * width);
  at::Tensor received = Bytes(scratch, ranks * mine * width), sent = Bytes(data, call.numel * width);
  std::vector<int64_t> receive_sizes(static_cast<size_t>(ranks), mine * width), send_sizes;
  for (int64_t rank = 0; rank < ranks; ++rank) send_sizes.push_back(length(rank) * width);
  Await(backend_->alltoall_base(received, sent, receive_sizes, send_sizes));
  std::byte* own = data + rank() * part * width;
  SumRuns(call.dtype, scratch, own, mine, own);
  if (call.numel % ranks == 0) {
    CollectiveCall gather = call;
    gather.numel = part;
    AllGather(gather, own, data);
    return;
  }
  std::byte* place = scratch + rank() * part * width;
  std::memcpy(place, own, static_cast<size_t>(mine * width));
  CollectiveCall gather = call;
  gather.numel = part;
  AllGather(gather, place, scratch);
  std::memcpy(data, scratch, static_cast<size_t>(call.numel * width));
}

void C10dTransport::AllGather(const CollectiveCall& call, const void* input, void* output) {
  const int64_t bytes = call.numel * ElementSize(call);
  at::Tensor all = Bytes(output, world_size() * bytes), mine = Bytes(input, bytes);
  Await(backend_->_allgather_base(all, mine));
}

void C10dTransport::ReduceScatter(const CollectiveCall& call, const std::byte* input, void* output) {
  const int64_t width = ElementSize(call), bytes = call.numel * width;
  at::Tensor received = Bytes(Scratch(world_size() * bytes), world_size() * bytes),
             sent = Bytes(input, world_size() * bytes);
  std::vector<int64_t> sizes(static_cast<size_t>(world_size()), bytes);
  Await(backend_->alltoall_base(received, sent, sizes, sizes));
  SumRuns(call.dtype, static_cast<const std::byte*>(received.const_data_ptr()), input + rank() * bytes, call.numel,
          output);
}

}  // namespace composer
