// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/c10d_communicator.h"

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "trainer/torch_status.h"

namespace composer {
namespace {

// Gloo reports a lost peer as a plain error of its own; whatever a collective throws means that a peer or the network
// is gone.
[[noreturn]] void ThrowUnavailable(absl::string_view collective, int64_t sequence) {
  const absl::Status status = StatusFromCurrentException();
  throw StatusError(
      absl::UnavailableError(absl::StrCat(collective, " number ", sequence, " failed: ", status.message())));
}

class C10dPending final : public PendingCollective {
 public:
  C10dPending(c10::intrusive_ptr<c10d::Work> work, int64_t sequence) : work_(std::move(work)), sequence_(sequence) {}
  void Wait() override {
    try {
      work_->wait();
    } catch (...) {
      ThrowUnavailable("all-reduce", sequence_);
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  int64_t sequence_;
};

}  // namespace

std::unique_ptr<PendingCollective> C10dCommunicator::StartAllReduceSum(at::Tensor tensor) {
  TORCH_CHECK_VALUE(tensor.is_contiguous(), "all-reduce of a tensor that is not contiguous, shape ", tensor.sizes());
  ++num_collectives_;
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  return std::make_unique<C10dPending>(backend_->allreduce(tensors), num_collectives_);
}

void C10dCommunicator::Broadcast(at::Tensor tensor, int root) {
  ++num_collectives_;
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  try {
    backend_->broadcast(tensors, options)->wait();
  } catch (...) {
    ThrowUnavailable("broadcast", num_collectives_);
  }
}

}  // namespace composer
