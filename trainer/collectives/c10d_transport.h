// Host collectives over a c10d backend for CPU tensors (Gloo), with the sums in our order.
//
// Sums are made by the ranks, not by the backend: reduce-scatter = the parts change hands (all-to-all), each rank sums
// what it got; all-reduce = that and an all-gather, the bytes of a ring; small ones in one all-gather. With two ranks
// the backend's own sum has the same bits, and is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/collectives/host_transport.h"

namespace composer {

class C10dTransport final : public HostTransport {
 public:
  // check_calls: before each collective the ranks compare what they are about to do (an all-gather more), since Gloo ends
  // the process, or waits for ever, when they differ. last_calls: with check_calls, a store where each rank notes its
  // collective, so that a time-out can say who is where; may be null.
  explicit C10dTransport(c10::intrusive_ptr<c10d::Backend> backend, bool check_calls = false,
                         c10::intrusive_ptr<c10d::Store> last_calls = nullptr);
  ~C10dTransport() override;
  int rank() const override { return backend_->getRank(); }
  int world_size() const override { return backend_->getSize(); }
  void Run(const CollectiveCall& call, const void* input, void* output) override;
  // Gloo itself cannot: its threads wait until the peers' sockets close. Run no longer waits for them, and what they use is
  // never freed.
  void Abort() override { aborted_.store(true); }
  bool abandoned() const override { return abandoned_; }

 private:
  // Waits for a collective; throws StatusError kUnavailable once it is aborted.
  void Await(const c10::intrusive_ptr<c10d::Work>& work);
  void CheckCalls(const CollectiveCall& call);
  void AllReduce(const CollectiveCall& call, void* data);
  void AllReduceInParts(const CollectiveCall& call, std::byte* data);
  void AllGather(const CollectiveCall& call, const void* input, void* output);
  void ReduceScatter(const CollectiveCall& call, const std::byte* input, void* output);
  // Sums world_size consecutive runs of n elements, the rank's own at `own`, into `out`.
  void SumRuns(c10::ScalarType dtype, const std::byte* runs, const void* own, int64_t n, void* out);
  std::string OthersLastCalls();
  std::byte* Scratch(int64_t bytes);

  c10::intrusive_ptr<c10d::Backend> backend_;
  bool check_calls_;
  c10::intrusive_ptr<c10d::Store> last_calls_;
  std::atomic<bool> aborted_{false};
  bool abandoned_ = false;   // a collective is still under way in the backend
  bool call_error_ = false;  // what was thrown is about the calls, not of the backend
  at::Tensor scratch_;       // bytes; grows to the largest need
};

}  // namespace composer
