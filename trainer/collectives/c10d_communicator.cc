// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/c10d_communicator.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

// Gloo reports a lost peer as a plain error of its own, so whatever a collective throws means that a peer or the
// network is gone.
[[noreturn]] void ThrowUnavailable(const CollectiveCall& call) {
  const absl::Status status = StatusFromCurrentException();
  throw StatusError(absl::UnavailableError(
      absl::StrCat(NameOf(call.kind), " number ", call.sequence, " failed: ", status.message())));
}

}  // namespace

class C10dCommunicator::Pending final : public PendingCollective {
 public:
  Pending(const C10dCommunicator& communicator, const CollectiveCall& call, c10::intrusive_ptr<c10d::Work> work)
      : call_(call), work_(std::move(work)), watch_(communicator.watch_), watched_(communicator.watched_) {}
  void Wait() override {
    try {
      work_->wait();
      if (watch_ != nullptr) watch_->Awaited(watched_, call_);
    } catch (...) {
      ThrowUnavailable(call_);
    }
  }

 private:
  const CollectiveCall call_;
  c10::intrusive_ptr<c10d::Work> work_;
  std::shared_ptr<CollectiveWatch> watch_;
  size_t watched_;
};

C10dCommunicator::C10dCommunicator(c10::intrusive_ptr<c10d::Backend> backend, at::Device device, GroupFactory new_group,
                                   std::string name, std::shared_ptr<CollectiveWatch> watch)
    : backend_(std::move(backend)),
      device_(device),
      new_group_(std::move(new_group)),
      name_(std::move(name)),
      watch_(std::move(watch)) {
  if (watch_ != nullptr) watched_ = watch_->Join(name_.empty() ? "world" : name_.substr(0, name_.size() - 1), backend_);
}

CollectiveCall C10dCommunicator::Begin(CollectiveKind kind, const at::Tensor& part, int root) {
  const CollectiveCall call = {kind, part.scalar_type(), root, part.numel(), num_collectives(), TakeUnit()};
  if (watch_ != nullptr) watch_->Starts(watched_, call);
  return call;
}

std::unique_ptr<PendingCollective> C10dCommunicator::StartAllReduceSum(at::Tensor tensor) {
  CheckContiguous("all-reduce", tensor);
  CountAllReduce(tensor);
  const CollectiveCall call = Begin(CollectiveKind::kAllReduce, tensor);
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  return std::make_unique<Pending>(*this, call, backend_->allreduce(tensors));
}

std::unique_ptr<PendingCollective> C10dCommunicator::StartAllGather(at::Tensor output, at::Tensor input) {
  CheckParts("all-gather", output, input, world_size());
  CountParts(output);
  const CollectiveCall call = Begin(CollectiveKind::kAllGather, input);
  output = output.view(-1);  // Gloo compares shapes
  input = input.view(-1);
  return std::make_unique<Pending>(*this, call, backend_->_allgather_base(output, input));
}

std::unique_ptr<PendingCollective> C10dCommunicator::StartReduceScatterSum(at::Tensor output, at::Tensor input) {
  CheckParts("reduce-scatter", input, output, world_size());
  CountParts(input);
  const CollectiveCall call = Begin(CollectiveKind::kReduceScatter, output);
  output = output.view(-1);
  input = input.view(-1);
  return std::make_unique<Pending>(*this, call, backend_->_reduce_scatter_base(output, input));
}

void C10dCommunicator::Broadcast(at::Tensor tensor, int root) {
  CountBroadcast(tensor, root);
  const CollectiveCall call = Begin(CollectiveKind::kBroadcast, tensor, root);
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  try {
    Pending(*this, call, backend_->broadcast(tensors, options)).Wait();
  } catch (const StatusError&) {
    throw;
  } catch (...) {
    ThrowUnavailable(call);
  }
}

std::unique_ptr<Communicator> C10dCommunicator::NewGroup(const std::string& name, int rank, int size) {
  TORCH_CHECK(new_group_ != nullptr, "this group of ranks cannot be split: no store to meet at");
  const std::string full_name = name_ + name;
  return std::make_unique<C10dCommunicator>(new_group_(full_name, rank, size), device_, new_group_, full_name + "/",
                                            watch_);
}

}  // namespace composer
