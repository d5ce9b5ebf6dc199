// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/c10d_communicator.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

// Gloo reports a lost peer as a plain error of its own, so whatever a collective throws means that a peer or the
// network is gone.
[[noreturn]] void ThrowUnavailable(absl::string_view collective, int64_t sequence) {
  const absl::Status status = StatusFromCurrentException();
  throw StatusError(
      absl::UnavailableError(absl::StrCat(collective, " number ", sequence, " failed: ", status.message())));
}

class C10dPending final : public PendingCollective {
 public:
  C10dPending(const char* collective, c10::intrusive_ptr<c10d::Work> work, int64_t sequence)
      : collective_(collective), work_(std::move(work)), sequence_(sequence) {}
  void Wait() override {
    try {
      work_->wait();
    } catch (...) {
      ThrowUnavailable(collective_, sequence_);
    }
  }

 private:
  const char* collective_;
  c10::intrusive_ptr<c10d::Work> work_;
  int64_t sequence_;
};

}  // namespace

std::unique_ptr<PendingCollective> C10dCommunicator::StartAllReduceSum(at::Tensor tensor) {
  CheckContiguous("all-reduce", tensor);
  CountAllReduce(tensor);
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  return std::make_unique<C10dPending>("all-reduce", backend_->allreduce(tensors), num_collectives());
}

std::unique_ptr<PendingCollective> C10dCommunicator::StartAllGather(at::Tensor output, at::Tensor input) {
  CheckParts("all-gather", output, input, world_size());
  CountParts(output);
  output = output.view(-1);  // Gloo compares shapes
  input = input.view(-1);
  return std::make_unique<C10dPending>("all-gather", backend_->_allgather_base(output, input), num_collectives());
}

std::unique_ptr<PendingCollective> C10dCommunicator::StartReduceScatterSum(at::Tensor output, at::Tensor input) {
  CheckParts("reduce-scatter", input, output, world_size());
  CountParts(input);
  output = output.view(-1);
  input = input.view(-1);
  return std::make_unique<C10dPending>("reduce-scatter", backend_->_reduce_scatter_base(output, input),
                                       num_collectives());
}

void C10dCommunicator::Broadcast(at::Tensor tensor, int root) {
  CountBroadcast(tensor, root);
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  try {
    backend_->broadcast(tensors, options)->wait();
  } catch (...) {
    ThrowUnavailable("broadcast", num_collectives());
  }
}

std::unique_ptr<Communicator> C10dCommunicator::NewGroup(const std::string& name, int rank, int size) {
  TORCH_CHECK(new_group_ != nullptr, "this group of ranks cannot be split: no store to meet at");
  const std::string full_name = name_ + name;
  return std::make_unique<C10dCommunicator>(new_group_(full_name, rank, size), device_, new_group_, full_name + "/");
}

}  // namespace composer
