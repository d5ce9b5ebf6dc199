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

void CheckContiguous(const char* collective, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.is_contiguous(), collective, " of a tensor that is not contiguous, shape ", tensor.sizes());
}

// part: what each of `ranks` ranks has of whole.
void CheckParts(const char* collective, const at::Tensor& whole, const at::Tensor& part, int ranks) {
  CheckContiguous(collective, whole);
  CheckContiguous(collective, part);
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * ranks && whole.scalar_type() == part.scalar_type(), collective,
                    ": ", ranks, " parts of shape ", part.sizes(), " and dtype ", part.scalar_type(),
                    " do not make a tensor of shape ", whole.sizes(), " and dtype ", whole.scalar_type());
}

}  // namespace

std::unique_ptr<PendingCollective> C10dCommunicator::StartAllReduceSum(at::Tensor tensor) {
  CheckContiguous("all-reduce", tensor);
  ++num_collectives_;
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  return std::make_unique<C10dPending>("all-reduce", backend_->allreduce(tensors), num_collectives_);
}

std::unique_ptr<PendingCollective> C10dCommunicator::StartAllGather(at::Tensor output, at::Tensor input) {
  CheckParts("all-gather", output, input, world_size());
  ++num_collectives_;
  output = output.view(-1);  // Gloo compares shapes
  input = input.view(-1);
  return std::make_unique<C10dPending>("all-gather", backend_->_allgather_base(output, input), num_collectives_);
}

std::unique_ptr<PendingCollective> C10dCommunicator::StartReduceScatterSum(at::Tensor output, at::Tensor input) {
  CheckParts("reduce-scatter", input, output, world_size());
  ++num_collectives_;
  output = output.view(-1);
  input = input.view(-1);
  return std::make_unique<C10dPending>("reduce-scatter", backend_->_reduce_scatter_base(output, input),
                                       num_collectives_);
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
