// Collectives over a c10d backend (ProcessGroupGloo, ProcessGroupNCCL), called directly: no dispatcher in between.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/parallel/communicator.h"

namespace composer {

class C10dCommunicator final : public Communicator {
 public:
  // device: where the backend wants its tensors; Gloo's is the CPU.
  explicit C10dCommunicator(c10::intrusive_ptr<c10d::Backend> backend, at::Device device = at::kCPU)
      : backend_(std::move(backend)), device_(device) {}
  int rank() const override { return backend_->getRank(); }
  int world_size() const override { return backend_->getSize(); }
  at::Device device() const override { return device_; }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override;
  std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) override;
  std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) override;
  void Broadcast(at::Tensor tensor, int root) override;

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  at::Device device_;
};

}  // namespace composer
