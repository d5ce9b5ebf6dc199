// DryRunCommunicator is rank 0 of a group whose other ranks do not exist. It serves to find out, in one process, what a
// rank among any number of ranks does (trainer/memory_dry_run.h). Shapes are those of the real collectives; a sum is
// this rank's own term and a gather repeats this rank's part, so that values stay ordinary numbers. Nothing is
// allocated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "trainer/core/communicator.h"

namespace composer {

class DryRunCommunicator final : public Communicator {
 public:
  DryRunCommunicator(int ranks, at::Device device) : ranks_(ranks), device_(device) {}
  int rank() const override { return 0; }
  int world_size() const override { return ranks_; }
  at::Device device() const override { return device_; }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override {
    CheckContiguous("AllReduceSum", tensor);
    return std::make_unique<Done>();
  }
  std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) override {
    CheckParts("AllGather", output, input, ranks_);
    for (int64_t rank = output.is_alias_of(input) ? 1 : 0; rank < ranks_; ++rank) Part(output, rank).copy_(Flat(input));
    return std::make_unique<Done>();
  }
  std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) override {
    CheckParts("ReduceScatterSum", input, output, ranks_);
    if (!output.is_alias_of(input)) Flat(output).copy_(Part(input, 0));
    return std::make_unique<Done>();
  }
  void Broadcast(at::Tensor tensor, int root) override {}

 private:
  struct Done final : PendingCollective {
    void Wait() override {}
  };
  static at::Tensor Flat(const at::Tensor& tensor) { return tensor.view({tensor.numel()}); }
  at::Tensor Part(const at::Tensor& whole, int64_t rank) const {
    const int64_t numel = whole.numel() / ranks_;
    return Flat(whole).narrow(0, rank * numel, numel);
  }
  std::unique_ptr<Communicator> NewGroup(const std::string& /*name*/, int /*rank*/, int size) override {
    return std::make_unique<DryRunCommunicator>(size, device_);
  }

  int ranks_;
  at::Device device_;
};

}  // namespace composer
