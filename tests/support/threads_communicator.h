// Collectives among threads of one test, summed in rank order: what GradientReducer needs, without a network.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "trainer/parallel/communicator.h"

namespace composer {

// Shared by the ranks of one group.
class ThreadsExchange {
 public:
  explicit ThreadsExchange(int size) : size_(size) {}
  int size() const { return size_; }

  // Adds this rank's tensor to collective number `sequence`; Result blocks until all ranks have.
  void Contribute(int64_t sequence, int rank, const at::Tensor& tensor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rounds_[sequence].tensors[rank] = tensor.clone();
    changed_.notify_all();
  }
  at::Tensor Result(int64_t sequence) {
    std::unique_lock<std::mutex> lock(mutex_);
    Round& round = rounds_[sequence];
    changed_.wait(lock, [&] { return static_cast<int>(round.tensors.size()) == size_; });
    at::Tensor sum;
    for (const auto& [rank, tensor] : round.tensors) sum = sum.defined() ? sum + tensor : tensor.clone();
    return sum;
  }

 private:
  struct Round {
    std::map<int, at::Tensor> tensors;
  };
  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Round> rounds_;
};

class ThreadsCommunicator final : public Communicator {
 public:
  ThreadsCommunicator(ThreadsExchange& exchange, int rank) : exchange_(exchange), rank_(rank) {}
  int rank() const override { return rank_; }
  int world_size() const override { return exchange_.size(); }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override {
    TORCH_CHECK_VALUE(tensor.is_contiguous(), "all-reduce of a tensor that is not contiguous");
    struct Pending final : PendingCollective {
      void Wait() override { tensor.copy_(exchange->Result(sequence)); }
      ThreadsExchange* exchange;
      int64_t sequence;
      at::Tensor tensor;
    };
    auto pending = std::make_unique<Pending>();
    pending->exchange = &exchange_;
    pending->sequence = num_collectives_++;
    pending->tensor = tensor;
    exchange_.Contribute(pending->sequence, rank_, tensor);
    return pending;
  }
  void Broadcast(at::Tensor tensor, int root) override {
    AllReduceSum(rank_ == root ? tensor : tensor.zero_());
  }

 private:
  ThreadsExchange& exchange_;
  int rank_;
};

}  // namespace composer
