// Collectives among the threads of one test, summed in the same order as in every Communicator. This is what
// GradientReducer needs, without a network.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/collectives/tree_sum.h"
#include "trainer/core/communicator.h"

namespace composer {

// Shared by the ranks of one group.
class ThreadsExchange {
 public:
  explicit ThreadsExchange(int size) : size_(size) {}
  int size() const { return size_; }

  // Returns the exchange of a subgroup, which the first rank to ask creates. It lives as long as this one.
  ThreadsExchange& Subgroup(const std::string& name, int size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<ThreadsExchange>& group = subgroups_[name];
    if (group == nullptr) group = std::make_unique<ThreadsExchange>(size);
    return *group;
  }

  // Adds this rank's tensor to collective number `sequence`; Result blocks until all ranks have.
  void Contribute(int64_t sequence, int rank, const at::Tensor& tensor, uint16_t unit) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Round& round = rounds_[sequence];
    round.mixed = round.mixed || (!round.tensors.empty() && round.unit != unit);
    round.unit = unit;
    round.tensors[rank] = tensor.clone();
    changed_.notify_all();
  }
  // Returns all ranks' tensors by rank, flat. The round's memory is freed once every rank has asked. Throws when the
  // tensors belong to different units.
  std::vector<at::Tensor> Result(int64_t sequence) {
    std::unique_lock<std::mutex> lock(mutex_);
    Round& round = rounds_[sequence];
    changed_.wait(lock, [&] { return static_cast<int>(round.tensors.size()) == size_; });
    TORCH_CHECK(!round.mixed, "collective ", sequence, ": the ranks' tensors are of different units");
    std::vector<at::Tensor> result;
    for (const auto& [rank, tensor] : round.tensors) result.push_back(tensor.view(-1));
    if (++round.served == size_) rounds_.erase(sequence);
    return result;
  }

 private:
  struct Round {
    std::map<int, at::Tensor> tensors;
    int served = 0;
    uint16_t unit = 0;
    bool mixed = false;
  };
  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Round> rounds_;
  std::map<std::string, std::unique_ptr<ThreadsExchange>> subgroups_;
};

class ThreadsCommunicator final : public Communicator {
 public:
  ThreadsCommunicator(ThreadsExchange& exchange, int rank) : exchange_(exchange), rank_(rank) {}
  int rank() const override { return rank_; }
  int world_size() const override { return exchange_.size(); }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override {
    CountAllReduce(tensor);
    return Start(tensor, [tensor](const std::vector<at::Tensor>& all) { tensor.view(-1).copy_(Sum(all)); });
  }
  std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) override {
    CheckParts("all-gather", output, input, world_size());
    CountParts(output);
    return Start(input, [output](const std::vector<at::Tensor>& all) { output.view(-1).copy_(at::cat(all)); });
  }
  std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) override {
    CheckParts("reduce-scatter", input, output, world_size());
    CountParts(input);
    return Start(input, [output, rank = rank_](std::vector<at::Tensor> all) {
      for (at::Tensor& each : all) each = each.narrow(0, rank * output.numel(), output.numel());
      output.view(-1).copy_(Sum(all));
    });
  }
  void Broadcast(at::Tensor tensor, int root) override {
    CountBroadcast(tensor, root);
    Start(tensor, [tensor, root](const std::vector<at::Tensor>& all) {
      tensor.view(-1).copy_(all[static_cast<size_t>(root)]);
    })->Wait();
  }

 private:
  using Finish = std::function<void(const std::vector<at::Tensor>& all)>;
  struct Pending final : PendingCollective {
    void Wait() override {
      const at::NoGradGuard no_grad;
      finish(exchange->Result(sequence));
    }
    ThreadsExchange* exchange;
    int64_t sequence;
    Finish finish;
  };
  static at::Tensor Sum(const std::vector<at::Tensor>& all) {
    const at::Tensor sum = at::empty_like(all[0]);
    std::vector<const void*> parts;
    std::vector<at::Tensor> dense;
    for (const at::Tensor& each : all) parts.push_back(dense.emplace_back(each.contiguous()).const_data_ptr());
    TreeSum(sum.scalar_type(), parts, sum.mutable_data_ptr(), sum.numel());
    return sum;
  }
  std::unique_ptr<Communicator> NewGroup(const std::string& name, int rank, int size) override {
    return std::make_unique<ThreadsCommunicator>(exchange_.Subgroup(name, size), rank);
  }
  std::unique_ptr<PendingCollective> Start(const at::Tensor& mine, Finish finish) {
    TORCH_CHECK_VALUE(mine.is_contiguous(), "collective on a tensor that is not contiguous");
    auto pending = std::make_unique<Pending>();
    pending->exchange = &exchange_;
    pending->sequence = num_collectives();
    pending->finish = std::move(finish);
    exchange_.Contribute(pending->sequence, rank_, mine.detach(), TakeUnit());
    return pending;
  }

  ThreadsExchange& exchange_;
  int rank_;
};

}  // namespace composer
