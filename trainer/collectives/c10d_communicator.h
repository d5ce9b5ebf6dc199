// C10dCommunicator calls a plain c10d backend (NCCL; also Gloo) directly, without the dispatcher. The order of sums is
// the backend's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/collectives/collective_watch.h"
#include "trainer/core/communicator.h"

namespace composer {

class C10dCommunicator final : public Communicator {
 public:
  // Connects a group of `size` ranks under a name that no other group has; all of them must call it.
  using GroupFactory = std::function<c10::intrusive_ptr<c10d::Backend>(const std::string& name, int rank, int size)>;
  // `device` is where the backend expects its tensors; Gloo's is the CPU. Without a factory Split throws.
  // `watch` may be null; it must have no group of this name ("": world) yet.
  explicit C10dCommunicator(c10::intrusive_ptr<c10d::Backend> backend, at::Device device = at::kCPU,
                            GroupFactory new_group = nullptr, std::string name = "",
                            std::shared_ptr<CollectiveWatch> watch = nullptr);
  int rank() const override { return backend_->getRank(); }
  int world_size() const override { return backend_->getSize(); }
  at::Device device() const override { return device_; }
  bool sums_in_tree_order() const override { return false; }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override;
  std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) override;
  std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) override;
  void Broadcast(at::Tensor tensor, int root) override;

 private:
  class Pending;

  std::unique_ptr<Communicator> NewGroup(const std::string& name, int rank, int size) override;
  // Must be called after the collective has been counted. Throws StatusError when the ranks' calls differ.
  CollectiveCall Begin(CollectiveKind kind, const at::Tensor& part, int root = 0);

  c10::intrusive_ptr<c10d::Backend> backend_;
  at::Device device_;
  GroupFactory new_group_;
  std::string name_;  // "" or "<group>/": the prefix of the names of split-off groups
  std::shared_ptr<CollectiveWatch> watch_;
  size_t watched_ = 0;  // the group's number in it
};

}  // namespace composer
