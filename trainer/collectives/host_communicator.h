// HostCommunicator runs collectives of CPU tensors in the background: a thread runs them in order over a HostTransport
// while the caller computes. Small ones run at once in the caller when none is queued, since the handover would cost
// more than the collective. A thread that waits for a result helps by running what has not begun.
//
// Errors name the collective, its number, this rank and the tensor; after the first one every collective fails with it.
// A rank that has failed in one group also aborts all groups split off with it: it will not come to their next
// collective, and their ranks might otherwise wait for it in a circle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "trainer/collectives/host_transport.h"
#include "trainer/core/communicator.h"

namespace composer {

class HostCommunicator final : public Communicator {
 public:
  // Connects a group of `size` ranks under a name that no other group has; all of them must call it.
  using GroupFactory = std::function<std::unique_ptr<HostTransport>(const std::string& name, int rank, int size)>;
  struct Options {
    // Collectives up to this size run in the caller; INT64_MAX makes all of them do so (serial).
    int64_t inline_bytes = 64 << 10;
  };

  // Without a factory Split throws. `name` is this group's name, "" for the first group.
  explicit HostCommunicator(std::unique_ptr<HostTransport> transport) : HostCommunicator(std::move(transport), {}) {}
  HostCommunicator(std::unique_ptr<HostTransport> transport, Options options, GroupFactory new_group = nullptr,
                   std::string name = "");
  // Drops what has not begun and aborts what has. Waits for no peer.
  ~HostCommunicator() override;

  int rank() const override { return transport_->rank(); }
  int world_size() const override { return transport_->world_size(); }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override;
  std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) override;
  std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) override;
  void Broadcast(at::Tensor tensor, int root) override;
  void set_tracer(Tracer* tracer) override;

 private:
  struct Task;
  class Pending;
  class AbortGroup;
  HostCommunicator(std::unique_ptr<HostTransport> transport, Options options, GroupFactory new_group, std::string name,
                   std::shared_ptr<AbortGroup> abort_group);

  std::unique_ptr<Communicator> NewGroup(const std::string& name, int rank, int size) override;
  std::unique_ptr<PendingCollective> Start(CollectiveKind kind, at::Tensor output, at::Tensor input, int root = 0);
  // Requires the lock, which it releases while the collective runs.
  void Run(Task& task, std::unique_lock<std::mutex>& lock);
  // Runs queued tasks in order until the given one is done; null means until the destructor.
  void Work(const Task* until);

  const std::unique_ptr<HostTransport> transport_;
  const Options options_;
  const GroupFactory new_group_;
  const std::string name_;
  const std::shared_ptr<AbortGroup> abort_group_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> queue_;
  bool running_ = false;  // a thread is in transport_->Run
  bool stop_ = false;
  std::exception_ptr broken_;
  std::thread thread_;  // started by the first task that is queued
};

}  // namespace composer
