// Measures what one rank of a test allocates for tensors, excluding the test's own collectives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/threads_communicator.h"
#include "trainer/core/communicator.h"
#include "trainer/memory/allocation_recorder.h"

namespace composer {

inline constexpr char kCollective[] = "collective";

// Marks what the other communicator allocates: its copies belong to the test, not to what is tested.
class MarkedCommunicator final : public Communicator {
 public:
  // exchange belongs to the inner communicator; it is needed when groups are to be split off.
  MarkedCommunicator(Communicator& inner, AllocationRecorder& recorder, ThreadsExchange* exchange = nullptr)
      : inner_(inner), recorder_(recorder), exchange_(exchange) {}
  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override {
    return Mark([&] {
      inner_.set_unit(TakeUnit());
      return inner_.StartAllReduceSum(tensor);
    });
  }
  std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) override {
    return Mark([&] {
      inner_.set_unit(TakeUnit());
      return inner_.StartAllGather(output, input);
    });
  }
  std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) override {
    return Mark([&] {
      inner_.set_unit(TakeUnit());
      return inner_.StartReduceScatterSum(output, input);
    });
  }
  void Broadcast(at::Tensor tensor, int root) override {
    recorder_.SetPhase(kCollective);
    inner_.Broadcast(tensor, root);
    recorder_.SetPhase("");
  }

 private:
  struct Pending final : PendingCollective {
    Pending(std::unique_ptr<PendingCollective> started, AllocationRecorder& marked)
        : inner(std::move(started)), recorder(marked) {}
    void Wait() override {
      recorder.SetPhase(kCollective);
      inner->Wait();
      recorder.SetPhase("");
    }
    std::unique_ptr<PendingCollective> inner;
    AllocationRecorder& recorder;
  };
  template <typename Start>
  std::unique_ptr<PendingCollective> Mark(const Start& start) {
    recorder_.SetPhase(kCollective);
    auto pending = std::make_unique<Pending>(start(), recorder_);
    recorder_.SetPhase("");
    return pending;
  }
  std::unique_ptr<Communicator> NewGroup(const std::string& name, int rank, int size) override {
    TORCH_CHECK(exchange_ != nullptr, "a group of ranks that are not threads of one exchange");
    ThreadsExchange& exchange = exchange_->Subgroup(name, size);
    auto inner = std::make_unique<ThreadsCommunicator>(exchange, rank);
    auto group = std::make_unique<MarkedCommunicator>(*inner, recorder_, &exchange);
    group->own_inner_ = std::move(inner);
    return group;
  }
  std::unique_ptr<Communicator> own_inner_;
  Communicator& inner_;
  AllocationRecorder& recorder_;
  ThreadsExchange* exchange_;
};

// Returns the peak of live bytes among the events begin to end.
inline int64_t PeakOf(const AllocationHistory& history, size_t begin, size_t end) {
  std::map<uint64_t, int64_t> live;
  int64_t now = 0, peak = 0;
  for (size_t i = 0; i < end; ++i) {
    const AllocationEvent& event = history.events[i];
    const std::vector<std::string>& stack = history.stacks[static_cast<size_t>(event.stack)];
    if (event.kind == AllocationEvent::Kind::kAlloc) {
      if (std::find(stack.begin(), stack.end(), kCollective) != stack.end()) continue;
      live[event.address] = event.bytes;
      now += event.bytes;
    } else if (const auto it = live.find(event.address); it != live.end()) {
      now -= it->second;
      live.erase(it);
    }
    if (i >= begin) peak = std::max(peak, now);
  }
  return peak;
}

}  // namespace composer
